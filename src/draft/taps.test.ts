import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { readTapRule, readTaps } from './taps.js';

const read = (config: Record<string, unknown>, layerCount: number) =>
  readTaps({ folder: 'head', config }, layerCount);
const key = 'eagle_aux_hidden_state_layer_ids';

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
  });

  it('takes them from the config, nested or not', () => {
    expect(read({ eagle_config: { [key]: [2, 5, 8] } }, 8)).toEqual([2, 5, 8]);
    expect(read({ [key]: [0, 3] }, 8)).toEqual([0, 3]);
    expect(read({ aux_hidden_state_layer_ids: [2, 5] }, 8)).toEqual([2, 5]);
    expect(read({ eagle_config: { [key]: [3] }, [key]: [2] }, 8)).toEqual([3]);
  });

  it('reads a list that begins with 1 as outputs of layers, which is the default of 94 layers here', () => {
    expect(read({ eagle_config: { [key]: [1, 46, 90] } }, 94)).toEqual(read({}, 94));
    expect(readTapRule({ folder: 'head', config: { [key]: [1, 46, 90] } }).origin).toContain('outputs');
    expect(readTapRule({ folder: 'head', config: { [key]: [2, 47, 91] } }).origin).toContain('before');
  });

  it('reads a list of the speculators format as it stands, whatever it begins with', () => {
    expect(read({ [key]: [1, 5, 8], transformer_layer_config: { hidden_size: 16 } }, 8)).toEqual([1, 5, 8]);
  });

  it.each([[[2, 4, 9]], [[1, 4, 8]]])('refuses %j for 8 layers', (given) => {
    const readWrong = () => read({ [key]: given }, 8);
    expect(readWrong).toThrow(MistletoeError);
    expect(readWrong).toThrow(`asks for the taps ${JSON.stringify(given)}; layers from 0 to 8 were expected`);
  });

  it.each([[[-1]], [[1.5]], [[]], ['2,4,5'], [7]])('refuses %j, which is no list of layers', (given) => {
    expect(() => read({ [key]: given }, 8)).toThrow(
      `asks for the taps ${JSON.stringify(given)}; whole numbers from 0 were expected`,
    );
  });

  it('refuses a target with too few layers for the default', () => {
    expect(() => read({}, 2)).toThrow('asks for the taps [2,1,-1]');
  });
});
