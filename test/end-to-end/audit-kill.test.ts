import { testKilledAudits } from './killed-audits.js';

testKilledAudits({
  ...{ kills: 3, maxEvents: 9, drafters: ['draft model'], prompts: ['abcdefgh'], words: ['--starts', '1'] },
});
