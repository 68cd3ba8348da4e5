import { afterAll, expect, it } from 'vitest';
import { TinyAudits, briefSettings } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';
import { judge } from '../../src/report/audit/verdict.js';
import { RunFolder } from '../../src/runs/run-folder.js';
import { UnitFailed } from '../../src/runs/unit.js';
import { createRequest } from '../../src/audit/audit-request.js';
import { rebuildResult } from '../../src/audit/run-audit.js';
import { openBackend } from '../../src/audit/units/executors.js';
import { runUnits } from '../../src/audit/units/run-units.js';

const audits = new TinyAudits(shallow);
afterAll(() => audits.dispose());

it('finishes the run without the units that failed, and reports their errors', async () => {
  const drafters = ['draft model', 'Medusa, torch file'].map((name) => audits.writeDrafter(name));
  const request = await createRequest(
    audits.plan(drafters, ['abcdefgh'], {
      ...{ transfer: true, universal: true },
      settings: { ...briefSettings, maxNewTokens: 12 },
    }),
  );
  const [first, second] = request.drafters.map(({ id }) => id) as [string, string];
  const backend = await openBackend(request, { cacheFolder: audits.cacheFolder });
  const doomed = [`${first}/universal`, `transfer/${first}/${second}`];
  const folder = RunFolder.create(audits.freshFolder(), request);
  const run = (): Promise<unknown> =>
    runUnits(
      folder,
      request,
      {
        ...backend,
        executor: {
          ...backend.executor,
          run: (unit, hooks) =>
            doomed.includes(unit.key)
              ? Promise.reject(new UnitFailed('the worker ended with SIGKILL'))
              : backend.executor.run(unit, hooks),
        },
      },
      {},
    );
  try {
    expect(await run()).toEqual(doomed.map((unit) => ({ unit, error: 'the worker ended with SIGKILL' })));
    const result = rebuildResult(request, folder);
    const error = 'It failed: the worker ended with SIGKILL';
    expect(result.failedUnits).toEqual([
      { unit: `${first}/universal`, error },
      { unit: `transfer/${first}/${second}/p1`, error },
    ]);
    expect(result.universal.map(({ drafter }) => drafter)).toEqual([second]);
    expect(result.transfer!.attacked.map((row) => row.map((length) => length === null))).toEqual([
      [false, true],
      [false, false],
    ]);
    expect(judge(result).warnings).toEqual([
      `The result is without 2 units. ${first}/universal: ${error}; transfer/${first}/${second}/p1: ${error}`,
    ]);
    // A resumed run has nothing left to do.
    expect(await run()).toEqual([]);
  } finally {
    folder.close();
    await backend.close();
  }
});
