// One script for both sides: the page, and the worker it starts from its own text, which holds
// the recording and does all the counting.

import { startPage } from "./page/start";
import { serve } from "./worker";

if (typeof document === "undefined") serve();
else startPage();
