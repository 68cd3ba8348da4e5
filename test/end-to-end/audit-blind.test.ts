import { testBlindAudits } from './blind-audits.js';

testBlindAudits(0, 10);
