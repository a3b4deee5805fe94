// What every view has: the palette, the jobs that run, files that are dropped, undo, and the tray of scenarios.
import "./drop.js";
