import { Report } from "../views/report.js";
import { start } from "../views/shell.js";

start("report", Report);
