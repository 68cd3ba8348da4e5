import { testKilledAudits } from './killed-audits.js';

testKilledAudits({
  ...{ kills: 20, maxEvents: 9, drafters: ['draft model', 'Medusa, torch file'] },
  ...{ prompts: ['abcdefgh', 'hgfedcba'], words: ['--transfer'] },
});
