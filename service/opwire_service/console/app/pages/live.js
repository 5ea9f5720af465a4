import { Live } from "../views/live.js";
import { start } from "../views/shell.js";

start("live", Live);
