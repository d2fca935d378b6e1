// @ts-check
// Puts the page together.

import { setUpAnswer } from "./answer.js";
import { Camera } from "./camera.js";
import { connect, connectionEvents } from "./connection.js";
import { setUpDialogs } from "./dialogs.js";
import { find } from "./dom.js";
import { importMemory, setUpExchange, showVersion } from "./exchange.js";
import { setUpFileInput } from "./file_input.js";
import { setUpHistory } from "./history.js";
import { runLive } from "./live.js";
import { setUpQuestions } from "./questions.js";
import { setUpScores } from "./scores.js";
import { setUpThings } from "./things.js";
import { addPictures, setUpTray } from "./tray.js";
import { setUpViewfinder } from "./viewfinder.js";
import { setUpViews } from "./views.js";

const camera = new Camera(find("video"));
setUpAnswer();
setUpTray(camera);
setUpThings();
setUpQuestions();
setUpDialogs();
setUpHistory();
setUpScores();
setUpViews();
setUpExchange();
setUpFileInput(addPictures, importMemory);
setUpViewfinder(camera, (blob) => addPictures([blob]));
connectionEvents.addEventListener("back", showVersion);
connect();
runLive(camera);
