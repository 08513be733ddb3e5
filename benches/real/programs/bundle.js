// What webpack and vite bundle.
import * as dom from 'react-dom/client';
import lodash from 'lodash';
import * as rxjs from 'rxjs';

globalThis.everything = [dom, lodash, rxjs];
