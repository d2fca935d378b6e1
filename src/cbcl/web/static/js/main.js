// Puts the page together.

import { setUpAnswer } from "./answer.js";
import { Camera } from "./camera.js";
import { learnFrom, setUpCarrying, showVersion } from "./exchange.js";
import { connect, connection } from "./connection.js";
import { setUpDialogs } from "./dialogs.js";
import { find } from "./dom.js";
import { setUpFinder } from "./viewfinder.js";
import { setUpHistory } from "./history.js";
import { setUpIntake } from "./file_input.js";
import { runLive } from "./live.js";
import { setUpQuestions } from "./questions.js";
import { setUpScores } from "./scores.js";
import { setUpThings } from "./things.js";
import { add, setUpTray } from "./tray.js";
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
setUpCarrying();
setUpIntake(add, learnFrom);
setUpFinder(camera, (blob) => add([blob]));
connection.addEventListener("back", showVersion);
connect();
runLive(camera);
