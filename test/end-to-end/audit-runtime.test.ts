/** An audit on a runtime of the caller: used, left open, and rid of the programs of a search with the drafter's audit. */
import { afterAll, expect, it } from 'vitest';
import { createRequest } from '../../src/audit/audit-request.js';
import { planAudit } from '../../src/audit/run-audit.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { Program, Runtime } from '../../src/runtime/program.js';
import { briefSettings, TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';

const inner = createOnnxRuntime({ threads: 1 });
let compiled = 0;
/** Programs of searches: those of decoding ask for packed weights. */
const searching = new Set<Program>();
let isDisposed = false;
const runtime: Runtime = {
  name: 'onnx, counted',
  allocate: (...size) => inner.allocate(...size),
  async compile(outputs, weights, options = {}) {
    const program = await inner.compile(outputs, weights, options);
    compiled += 1;
    if (options.packed === true) return program;
    const counted = Object.create(program, {
      dispose: {
        value: async () => {
          searching.delete(counted);
          await program.dispose();
        },
      },
    }) as Program;
    searching.add(counted);
    return counted;
  },
  async dispose() {
    isDisposed = true;
    await inner.dispose();
  },
};
const audits = new TinyAudits(shallow);
afterAll(async () => {
  await runtime.dispose();
  await audits.dispose();
});

it('disposes of the programs of a search when the drafter is done', async () => {
  const drafters = [audits.writeDrafter('draft model'), audits.writeDrafter('Medusa, torch file')];
  const plan = audits.plan(drafters, ['abcdefgh'], { universal: true, settings: briefSettings });
  const { cacheFolder } = audits;
  const effort = await planAudit(await createRequest(plan), { cacheFolder, runtime });
  expect(effort.expectedMs).toBeGreaterThan(0);
  const held: number[] = [];
  const outcome = await audits.start(plan, audits.freshFolder(), {
    runtime,
    events: {
      onUnitStart: ({ arm }) => {
        if (arm === 'clean' || arm === 'universal') held.push(searching.size);
      },
      onUnitEnd: ({ arm }) => {
        if (arm === 'attack') held.push(searching.size);
      },
    },
  });
  expect(outcome.status).toBe('complete');
  // clean, attack and universal of each drafter; the last two share programs
  expect(held.map((count) => count > 0)).toEqual([false, true, true, false, true, true]);
  expect(searching.size).toBe(0);
  expect(compiled).toBeGreaterThan(0);
  expect(isDisposed).toBe(false);
});
