// Right answer: that of `service.js`, whose main module this is instead.

import './service.js';
