/** An audit frees every buffer that it allocates for its prompts. */
import { afterAll, expect, it } from 'vitest';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { countMemory } from '../support/counting-runtime.js';
import { briefSettings, TinyAudits } from '../support/tiny-audit.js';
import { casesOfTier } from '../support/tier.js';
import { tiny } from '../support/tiny-checkpoints.js';

const audits = new TinyAudits(tiny);
afterAll(() => audits.dispose());

const variants = ['draft model', 'Medusa, torch file', 'EAGLE-3 with d2t'];

it.each(casesOfTier(variants, (variant) => variant.startsWith('EAGLE-3')))(
  'an audit of %s ends with the live bytes that it started with',
  async (variant) => {
    const { runtime, memory } = countMemory(createOnnxRuntime({ threads: 1 }));
    const plan = audits.plan([audits.writeDrafter(variant)], ['abcdefgh', 'hgfedcba'], {
      device: 'cpu',
      universal: true,
      settings: { ...briefSettings, starts: 2, candidates: 8, steps: 2 },
    });
    const { status } = await audits.start(plan, audits.freshFolder(), { runtime });
    expect(status).toBe('complete');
    expect(memory.liveBytes).toBe(0);
    await runtime.dispose();
  },
);
