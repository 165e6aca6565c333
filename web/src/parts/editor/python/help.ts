/** Help with Python, for every editor of the page. */

import * as completion from "./completion";
import * as ruff from "./ruff";

completion.begin();
ruff.begin();
