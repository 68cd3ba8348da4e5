import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import type { Drafter } from '../draft/drafter.js';
import { loadDrafter } from '../draft/systems.js';
import { createOnnxRuntime } from '../runtime/onnx/onnx-runtime.js';
import { bundledDrafterFolder, bundledTarget } from '../core/package-files.js';
import type { PolicyChooser } from './policies/policy-chooser.js';
import { createPolicy, defaultDraftPolicy, generateSpeculatively, generateText } from './generate.js';
import { isSpeculative } from './request.js';
import { openTarget, type Target } from './target.js';

const temporary = makeTemporaryFolder();
const runtime = createOnnxRuntime({ threads: 1 });
const prompt = 'Give me three tips for a good night’s sleep.';
let target: Target;
let drafter: Drafter;

beforeAll(async () => {
  const cacheFolder = join(temporary.path, 'cache');
  target = await openTarget(bundledTarget, { runtime, cacheFolder });
  drafter = await loadDrafter(bundledDrafterFolder('medusa'), { target: target.model, cacheFolder });
});
afterAll(async () => {
  await runtime.dispose();
  temporary.remove();
});

describe('generateSpeculatively', () => {
  it('answers as generateText does, with a record of acceptance', async () => {
    const plain = await generateText(target, prompt, { maxNewTokens: 12 });
    const result = await generateSpeculatively(target, drafter, prompt, {
      maxNewTokens: 12,
      policy: 'chain:3',
    });
    expect(result.tokenIds).toEqual(plain.tokenIds);
    expect(result.text).toBe(plain.text);
    expect(result.acceptance.proposed).toBe(3 * result.acceptance.steps);
    expect([isSpeculative(result), isSpeculative(plain)]).toEqual([true, false]);
  });

  it('takes a chooser that prompts share', async () => {
    const inner = createPolicy({ kind: 'chain', length: 2 }, drafter);
    let chosen = 0;
    const policy: PolicyChooser = {
      chainLengths: inner.chainLengths,
      choose: () => {
        chosen += 1;
        return inner.choose();
      },
      learn: (choice, outcome) => {
        inner.learn(choice, outcome);
      },
    };
    const first = await generateSpeculatively(target, drafter, prompt, { maxNewTokens: 4, policy });
    const second = await generateSpeculatively(target, drafter, prompt, { maxNewTokens: 4, policy });
    expect(chosen).toBe(first.acceptance.steps + second.acceptance.steps);
  });

  it('refuses policies that are not understood or do not fit', async () => {
    await expect(generateSpeculatively(target, drafter, prompt, { policy: 'chain' })).rejects.toThrow(
      /"chain" is not understood/,
    );
    await expect(generateSpeculatively(target, drafter, prompt, { policy: 'chain:40' })).rejects.toThrow(
      /asks for 40 levels/,
    );
  });
});

describe('the default policy', () => {
  it('follows the clock only where the clock cannot change the text', () => {
    expect(defaultDraftPolicy({ maximumDepth: 9 })).toEqual({ kind: 'auto' });
    expect(defaultDraftPolicy({ maximumDepth: 9 }, { temperature: 1 })).toEqual({ kind: 'chain', length: 4 });
    expect(defaultDraftPolicy({ maximumDepth: 2 }, { temperature: 1 })).toEqual({ kind: 'chain', length: 2 });
    const quantized = defaultDraftPolicy({ maximumDepth: 9 }, { temperature: 0 }, { quantization: 'int8' });
    expect(quantized).toEqual({ kind: 'chain', length: 4 });
  });
});
