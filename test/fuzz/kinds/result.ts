/** result.json of a stranger's run, as `compare` reads it: refused, or compared without an endless or senseless number. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRandom } from '../../../src/core/random.js';
import { createComparisonReport } from '../../../src/report/compare/comparison-report.js';
import { printReport } from '../../../src/report/document.js';
import { checkWorse, compareAudits } from '../../../src/report/compare/comparison.js';
import { readFinishedRun } from '../../../src/report/compare/finished-run.js';
import { renderResult, stringifyStably } from '../../../src/report/audit/write-reports.js';
import { createSampleAudit } from '../../support/report/sample-audit.js';
import { judge } from '../../../src/report/audit/verdict.js';
import { mutateBytes } from '../byte-mutations.js';
import { mutateJson } from '../json-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';
import { checkMarkdown } from '../report-checks.js';

export const result: FuzzKind = {
  name: 'result',
  boundedRuns: 30,
  open(folder) {
    const { result: audit } = createSampleAudit({ prompts: 3 });
    const text = renderResult(audit, judge(audit));
    const [before, after] = ['before', 'after'].map((name) => {
      mkdirSync(join(folder, name));
      return join(folder, name);
    });
    writeFileSync(join(before!, 'result.json'), text);
    const value = JSON.parse(text) as unknown;
    return async (seed) => {
      const random = createRandom(seed, 'result');
      const damaged =
        random.nextInteger(3) === 0 ? mutateBytes(Buffer.from(text), random) : mutateJson(value, random);
      writeFileSync(join(after!, 'result.json'), damaged);
      const runs = [await readFinishedRun(before!), await readFinishedRun(after!)] as const;
      const compared = compareAudits(...runs);
      const comparison = { ...compared, gate: checkWorse(compared, 0.1) };
      checkMarkdown(printReport(createComparisonReport(comparison), 'markdown'));
      JSON.parse(stringifyStably(comparison));
      ensure(
        !/\bundefined\b|\[object/.test(printReport(createComparisonReport(comparison), 'text')),
        'a hole in the text',
      );
    };
  },
};
