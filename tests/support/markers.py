"""The tests that `make check` leaves out, each with the reason as its marker.

A line is a file, or a test with all its parameters; the browser tests mark themselves. What is not
here runs in `make check`, so a test that takes more than about a second belongs here:
`pytest --durations=20` finds it. Those for torch are skipped without it.
"""

from __future__ import annotations

MARKED = {
    "process": [
        "study/tests/test_cli.py::test_what_ctrl_c_stops_goes_on_with_the_same_command",
        "study/tests/test_cli.py::test_what_fails_is_told_and_the_rest_is_run",
        "tests/cli/test_commands.py::test_a_terminal_gets_tables_colours_and_a_progress_bar",
        "tests/cli/test_commands.py::test_a_table_on_a_narrow_terminal_cuts_no_name_of_a_file",
        "tests/cli/test_commands.py::test_an_interrupted_learning_leaves_a_whole_memory",
        "tests/cli/test_watch.py::test_a_changed_answer_of_a_camera_is_a_line",
        "tests/cli/test_watch.py::test_a_photo_that_is_unknown_waits_in_the_inbox",
        "tests/cli/test_watch.py::test_each_line_goes_to_a_webhook_a_command_and_frigate",
        "tests/cli/test_watch.py::test_each_new_photo_is_a_line_until_it_is_stopped",
        "tests/cli/test_watch.py::test_with_all_photos_that_are_there_are_answered_and_the_memory_is_none",
        "tests/cli/test_workers.py",
        "tests/memory/test_memory.py::test_a_child_process_loses_nothing",
        "tests/memory/test_memory.py::test_a_read_only_memory_can_be_asked_but_not_taught",
        "tests/memory/test_memory.py::test_on_a_full_disk_nothing_is_lost",
        "tests/memory/test_memory.py::test_two_hundred_kills_lose_nothing",
        "tests/memory/test_memory.py::test_what_another_user_learns_is_seen_from_a_read_only_place",
        "tests/project/test_examples.py",
        "tests/project/test_first_steps.py",
        "tests/project/test_package.py::test_importing_it_loads_nothing_else",
        "tests/project/test_package.py::test_what_is_asked_for_is_loaded_then",
        "tests/recognition/test_learning_run.py::test_a_killed_driver_goes_on_and_neither_embeds_nor_learns_anything_twice",
        "tests/recognition/test_learning_run.py::test_real_workers_learn_the_same_and_one_may_be_killed",
        "tests/recognition/test_learning_run.py::test_workers_that_always_die_are_told",
        "tests/recognition/test_recognizer.py::test_processes_that_learn_at_once_lose_nothing",
        "study/tests/test_fan_out.py",
        "study/tests/test_records.py::test_two_processes_that_append_at_the_same_time_lose_nothing",
        "study/tests/test_runs.py::test_a_process_that_is_ended_is_told_and_what_was_finished_is_recorded",
        "study/tests/test_runs.py::test_a_run_that_fails_keeps_nothing_else_from_being_run",
        "study/tests/test_runs.py::test_neither_the_order_of_the_runs_nor_how_many_go_at_a_time_changes_a_record",
        "study/tests/test_runs.py::test_the_processes_of_one_that_was_killed_end_as_well",
        "study/tests/test_runs.py::test_what_was_killed_goes_on_as_well",
        "study/tests/test_runs.py::test_what_was_stopped_goes_on_and_ends_as_if_it_had_not_been",
        "study/tests/test_vectors.py::test_what_was_killed_goes_on_as_well",
        "tests/vision/test_backbones.py::test_seeing_writes_nothing_but_to_its_own_place_and_reports_to_nobody",
        "tests/vision/test_extraction.py::test_a_forked_process_does_not_wait_for_threads_of_its_parent",
        "tests/watch/test_mqtt.py::test_a_broker_that_is_away_is_told_once_and_told_all_when_it_is_back",
        "tests/watch/test_mqtt.py::test_a_broker_that_refuses_is_told",
        "tests/watch/test_mqtt.py::test_a_watch_that_is_killed_is_told_by_the_broker",
        "tests/watch/test_mqtt.py::test_each_thing_is_a_sensor_of_home_assistant",
        "tests/watch/test_mqtt.py::test_the_sensor_of_a_thing_forgotten_while_nobody_watched_is_removed",
        "tests/watch/test_sinks.py::test_a_command_that_fails_or_hangs_is_told",
        "tests/watch/test_sinks.py::test_a_command_gets_label_and_source_and_no_shell_reads_them",
        "tests/web/test_client.py::test_a_session",
        "tests/web/test_client.py::test_the_robot_loses_no_name_where_learning_fails",
        "tests/web/test_client.py::test_the_robot_stops_where_nobody_answers",
        "tests/web/test_client.py::test_what_goes_wrong_is_raised_as_a_recognizer_would",
        "tests/web/test_phone_access.py::test_new_tokens_end_the_streams_of_the_old_ones",
        "tests/web/test_phone_access.py::test_other_machines_are_served_over_https_and_plain_http_leads_there",
        "tests/web/test_phone_access.py::test_the_token_survives_a_restart_and_is_another_for_another_memory",
        "tests/web/test_phone_access.py::test_this_machine_alone_needs_no_certificate",
        "tests/web/test_server.py",
    ],
    "long": [
        "tests/page/test_page_states.py::test_the_page_the_command_line_python_and_onnx_agree_on_200_photos",
        "tests/page/test_person_script.py",
    ],
    "slow": [
        "tests/export/test_app.py",
        "study/tests/test_cli.py::test_a_folder_of_pictures_is_seen_learned_and_recognized",
        "tests/cli/test_commands.py::test_bad_input_is_one_sentence_exit_1_and_nothing_lost",
        "tests/cli/test_commands.py::test_visual_words_are_fitted_kept_and_used",
        "tests/memory/test_memory.py::test_no_flipped_bit_goes_unnoticed_and_changes_an_answer",
        "tests/method/test_budget.py::test_k_means_is_as_good_as_the_librarys",
        "tests/method/test_concepts.py::test_a_large_class_is_learned_in_chunks_as_in_one",
        "tests/project/test_demo.py",
        "tests/project/test_readme.py::test_the_session_prints_what_it_shows",
        "tests/project/test_docs.py::test_the_study_is_that_of_the_records",
        "tests/project/test_public_names.py::test_a_type_checker_sees_the_type_of_every_name_and_result",
        "tests/recognition/test_editing.py::test_an_example_taken_back_was_never_shown",
        "tests/recognition/test_joined_backbones.py::test_files_of_any_opset_tokens_included_are_exported_with_others",
        "tests/recognition/test_joined_backbones.py::test_the_graph_answers_as_python_does_and_tells_how_to_crop",
        "tests/export/test_onnx_export.py",
        "tests/recognition/test_person.py",
        "tests/heads/test_views.py::test_every_view_has_its_own_thumbnail_whatever_is_done",
        "study/tests/test_report.py::test_the_same_records_give_the_same_text_in_whatever_order_they_come",
        "study/tests/test_runs.py::test_the_same_seed_gives_the_same_record",
        "study/tests/test_vectors.py::test_visual_words_are_fitted_to_the_background_or_to_pictures_that_are_no_test",
        "tests/vision/test_decoding_limits.py::test_eight_large_pictures_at_once_take_no_more_than_the_budget",
        "tests/vision/test_decoding_limits.py::test_the_largest_picture_that_is_read_takes_no_more_than_400_mb",
        "tests/vision/test_extraction.py::test_threads_and_batches_change_no_bit_of_a_vector",
        "tests/vision/test_finding.py::test_folders_nested_deeply_are_walked_or_told",
        "tests/vision/test_heic.py::test_a_photo_of_48_megapixels_takes_no_more_than_400_mb",
        "tests/vision/test_weights.py::test_a_file_with_wrong_bytes_is_read_or_refused_and_nothing_else",
    ],
    "torch": [
        "study/tests/rivals/test_deep_bic.py",
        "study/tests/rivals/test_deep_eeil.py",
        "study/tests/rivals/test_deep_exemplars.py",
        "study/tests/rivals/test_deep_fused.py",
        "study/tests/rivals/test_deep_learner.py",
        "study/tests/rivals/test_deep_lwm.py",
        "study/tests/rivals/test_deep_sigmoids.py",
        "study/tests/rivals/test_deep_softmax.py",
        "study/tests/rivals/test_fearnet.py",
        "tests/vision/test_torch_graph.py",
    ],
}


def markers_of(test: str) -> list[str]:
    """Return the markers of a test by its node id.

    >>> markers_of("tests/web/test_server.py::test_a_restarted_server_knows_all_it_knew")
    ['process']
    >>> markers_of("tests/method/test_voting.py::test_ties[1]")
    []
    """
    name = test.split("[")[0]
    places = {name, name.split("::")[0]}
    return [marker for marker, marked in MARKED.items() if places & set(marked)]
