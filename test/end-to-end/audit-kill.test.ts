import { testKilledAudits } from './killed-audits.js';

testKilledAudits({
  ...{
    kills: 3,
    maxEvents: 9,
    drafters: ['Medusa, torch file'],
    prompts: ['abcdefgh'],
    words: ['--starts', '1'],
  },
});
