"""The paper's learner as a head of a memory."""
