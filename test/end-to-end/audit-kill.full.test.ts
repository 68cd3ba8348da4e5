import { testKilledAudits } from './killed-audits.js';

testKilledAudits({
  ...{ kills: 20, maxEvents: 9, drafters: ['draft model', 'EAGLE-3 with d2t'] },
  ...{ prompts: ['abcdefgh', 'hgfedcba'], words: ['--transfer'] },
});
