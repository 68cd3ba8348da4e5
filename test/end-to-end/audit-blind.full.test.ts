import { testBlindAudits } from './blind-audits.js';

testBlindAudits(10, 100);
