import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../../core/errors.js';
import type { TapConvention } from '../draft-system.js';
import { describeTapRule, readTapRule, readTaps, spellTaps } from './taps.js';

type Config = Record<string, unknown>;

const head = (config: Config) => ({ folder: 'head', config });
const read = (config: Config, layerCount: number, given?: TapConvention) =>
  readTaps(head(config), layerCount, given).taps;
const explain = (config: Config, given?: TapConvention) => describeTapRule(readTapRule(head(config)), given);
const key = 'eagle_aux_hidden_state_layer_ids';
const nested = (list: unknown, architecture?: string): Config => ({
  ...(architecture === undefined ? {} : { architectures: [architecture] }),
  eagle_config: { [key]: list },
});
const specForge = (list: unknown): Config => nested(list, 'LlamaForCausalLMEagle3');

describe('readTaps', () => {
  it.each([
    [32, [2, 16, 29]],
    [40, [2, 20, 37]],
    [8, [2, 4, 5]],
    [61, [2, 30, 58]],
  ])('taps a target of %i layers where the authors do', (layerCount, taps) => {
    expect(read({}, layerCount)).toEqual(taps);
    expect(read({ eagle_config: null }, layerCount)).toEqual(taps);
    expect(read({ eagle_config: { use_aux_hidden_state: true } }, layerCount)).toEqual(taps);
    expect(read({}, layerCount, 'outputs')).toEqual(taps);
  });

  it.each([
    [
      [1, 3, 4],
      [2, 4, 5],
    ],
    [
      [2, 4, 6],
      [3, 5, 7],
    ],
    [
      [0, 3, 6],
      [1, 4, 7],
    ],
    // In the order of the layers, as SGLang and vLLM collect them.
    [
      [6, 1, 4],
      [2, 5, 7],
    ],
  ])('reads %j of SpecForge, SGLang and ModelOpt as outputs', (list, taps) => {
    expect(read(specForge(list), 8)).toEqual(taps);
    expect(explain(specForge(list))).toBe(
      `${list.join(', ')}: outputs of these layers, because SpecForge, SGLang and ModelOpt put the list of LlamaForCausalLMEagle3 into eagle_config`,
    );
  });

  it('reads what SpecForge lists for 94 layers as the default', () => {
    expect(read(specForge([1, 46, 90]), 94)).toEqual(read({}, 94));
  });

  it.each([
    [
      'the speculators format',
      { [key]: [1, 5, 7], transformer_layer_config: { hidden_size: 16 } },
      /because the file is in the speculators format$/,
    ],
    [
      'the speculators format, shorter key',
      { aux_hidden_state_layer_ids: [1, 5, 7], transformer_layer_config: {} },
      /because the file is in the speculators format$/,
    ],
    ['a list beside eagle_config', { [key]: [1, 5, 7] }, /only vLLM and llama\.cpp read a list there$/],
    [
      'a list beside eagle_config, whatever the architecture',
      { [key]: [1, 5, 7], architectures: ['LlamaForCausalLMEagle3'], eagle_config: {} },
      /only vLLM and llama\.cpp read a list there$/,
    ],
    ['vLLM’s own key', { eagle_config: { layer_ids: [1, 5, 7] } }, /a key of vLLM$/],
  ])('reads inputs: %s', (_, config, reason) => {
    expect(read(config, 8)).toEqual([1, 5, 7]);
    expect(explain(config)).toMatch(/^1, 5, 7: inputs of these layers, because/);
    expect(explain(config)).toMatch(reason);
  });

  it('reads the key of AngelSlim as outputs', () => {
    expect(read({ aux_hidden_states_layer_ids: [1, 5, 7] }, 8)).toEqual([2, 6, 8]);
  });

  it('accepts two lists that agree', () => {
    expect(read({ ...specForge([1, 3, 4]), [key]: [2, 4, 5] }, 8)).toEqual([2, 4, 5]);
  });

  const unknown: readonly [what: string, config: Config][] = [
    ['eagle_config without an architecture', nested([2, 4, 6])],
    ['eagle_config with another architecture', nested([2, 4, 6], 'LlamaForCausalLM')],
    ['the shorter key', { aux_hidden_state_layer_ids: [2, 4, 6] }],
    ['two lists that disagree', { ...specForge([2, 4, 6]), [key]: [2, 4, 6] }],
  ];
  it.each(unknown)('refuses, unless told: %s', (_, config) => {
    expect(() => read(config, 8)).toThrow(
      'The drafter in head lists the taps [2,4,6], and whether they are inputs or outputs of layers is not known:',
    );
    expect(() => read(config, 8)).toThrow(
      expect.objectContaining({ code: 'drafter', hint: expect.stringContaining('--taps outputs') as string }),
    );
    expect(explain(config)).toContain('which is not known because');
    expect(read(config, 8, 'inputs')).toEqual([2, 4, 6]);
    expect(read(config, 8, 'outputs')).toEqual([3, 5, 7]);
    expect(explain(config, 'outputs')).toBe('2, 4, 6: outputs of these layers, because --taps says so');
  });

  it('takes a list that names the number of layers for unknown where it would mean outputs', () => {
    // nvidia/gpt-oss-120b-Eagle3-v3 counts boundaries in SGLang's form.
    const config = specForge([24, 30, 36]);
    expect(() => read(config, 36)).toThrow('a target of 36 layers has no output 36');
    expect(readTaps(head(config), 36, 'inputs')).toEqual({ taps: [24, 30, 36] });
  });

  it('obeys what was passed and says where the file means something else', () => {
    const { taps, notice } = readTaps(head(specForge([2, 4, 6])), 8, 'inputs');
    expect(taps).toEqual([2, 4, 6]);
    expect(notice).toMatch(
      /^The taps \[2,4,6\] of head are read as inputs of layers because --taps says so; the file means outputs: SpecForge/,
    );
    expect(readTaps(head(specForge([2, 4, 6])), 8, 'outputs')).not.toHaveProperty('notice');
  });

  it.each([
    [{ [key]: [2, 4, 9] }, [2, 4, 9]],
    [specForge([1, 4, 9]), [1, 4, 9]],
  ])('refuses %j for 8 layers', (config, given) => {
    const readWrong = () => read(config, 8);
    expect(readWrong).toThrow(MistletoeError);
    expect(readWrong).toThrow(`asks for the taps ${JSON.stringify(given)}; layers from 0 to 8 were expected`);
  });

  it.each([[[-1]], [[1.5]], [[]], ['2,4,5'], [7]])('refuses %j, which is no list of layers', (given) => {
    expect(() => read({ [key]: given }, 8)).toThrow(
      `asks for the taps ${JSON.stringify(given)}; 1 to 256 whole numbers from 0 were expected`,
    );
  });

  it('refuses a list of a million layers', () => {
    expect(() => read({ [key]: new Array(1_000_000).fill(1) }, 8)).toThrow('1 to 256 whole numbers');
  });

  it('refuses a target with too few layers for the default', () => {
    expect(() => read({}, 2)).toThrow('asks for the taps [2,1,-1]');
  });
});

describe('spellTaps', () => {
  it.each(['inputs', 'outputs'] as const)('writes %s so that the file says it by itself', (given) => {
    const configs: readonly Config[] = [
      nested([2, 4, 6]),
      specForge([2, 4, 6]),
      { [key]: [2, 4, 6], bias: true },
    ];
    for (const config of configs) {
      const spelled = spellTaps(head(config), given);
      expect(readTapRule(head(spelled))).toMatchObject({ listed: [2, 4, 6], convention: given });
      expect(spelled.bias).toBe(config.bias);
    }
  });

  it('leaves a file as it is that says so already, or lists nothing', () => {
    const config = specForge([2, 4, 6]);
    expect(spellTaps(head(config), 'outputs')).toBe(config);
    expect(spellTaps(head({}), 'outputs')).toEqual({});
  });
});
