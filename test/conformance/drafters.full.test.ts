import { otherLayouts } from '../support/tiny-drafters.js';
import { describeDrafters } from './drafter-suite.js';

describeDrafters(otherLayouts);
