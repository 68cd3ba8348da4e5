import { describe, expect, it } from 'vitest';
import { attentionFactorOf, createRotary, scaleFrequencies } from './rotary.js';
import { parseRotary } from './rotary-settings.js';

const sizes = { headSize: 16, positions: 32768 };
const parse = (config: Readonly<Record<string, unknown>>, { headSize, positions } = sizes) =>
  parseRotary(config, 'config.json', { headSize, positions });
const shortFactors = [1, 1.05, 1.1, 1.25, 1.5, 2, 3, 4.5];
const longFactors = shortFactors.map((factor) => 2 * factor);

/**
 * Written out from the formulas of transformers' modeling_rope_utils in plain Python, without looking at the code here:
 *   corr = lambda r: dim * log(orig / (r * 2 * pi)) / (2 * log(base)); lo, hi = floor(corr(fast)), ceil(corr(slow))
 *   lo, hi = max(lo, 0), min(hi, dim - 1); ramp = min(1, max(0, (i - lo) / (hi - lo))); p = base ** (2 * i / dim)
 *   frequency = ramp / (factor * p) + (1 - ramp) / p
 */
const recorded = [
  {
    name: 'yarn as Qwen2.5 asks for it',
    config: {
      rope_theta: 1e6,
      rope_scaling: { type: 'yarn', factor: 4, original_max_position_embeddings: 32768 },
    },
    positions: 32768,
    attentionFactor: 1.138629436111989,
    frequencies: [
      1, 0.177827941, 0.0316227766, 0.004217559939, 0.0005, 4.445698525e-5, 7.90569415e-6, 1.405853313e-6,
    ],
  },
  {
    name: 'yarn with a ramp between whole pairs, its original context by default max_position_embeddings',
    config: { rope_parameters: { rope_theta: 1e6, rope_type: 'yarn', factor: 4, truncate: false } },
    positions: 32768,
    attentionFactor: 1.138629436111989,
    frequencies: [
      1, 0.177827941, 0.0316227766, 0.005517270475, 0.0006074079379, 4.445698525e-5, 7.90569415e-6,
      1.405853313e-6,
    ],
  },
  {
    name: 'yarn with mscale, its factor by the two lengths',
    config: {
      rope_parameters: {
        rope_type: 'yarn',
        original_max_position_embeddings: 4096,
        mscale: 1,
        mscale_all_dim: 0.707,
        beta_fast: 0,
      },
    },
    positions: 163840,
    attentionFactor: 1.0857263992561355,
    frequencies: [1, 0.316227766, 0.1, 0.02391472481, 0.005125, 0.0008498621212, 2.5e-5, 7.90569415e-6],
  },
  {
    name: 'yarn with borders and an attention factor of its own',
    config: {
      rope_scaling: {
        rope_type: 'yarn',
        factor: 8,
        original_max_position_embeddings: 2048,
        beta_fast: 16,
        beta_slow: 2,
        attention_factor: 1.5,
        mscale: 1,
        mscale_all_dim: 0.5,
      },
    },
    positions: 16384,
    attentionFactor: 1.5,
    frequencies: [
      1, 0.316227766, 0.1, 0.02239946676, 0.004166666667, 0.0003952847075, 0.000125, 3.952847075e-5,
    ],
  },
  {
    name: 'longrope with the original context beside it',
    config: {
      original_max_position_embeddings: 4096,
      rope_scaling: { type: 'longrope', short_factor: shortFactors, long_factor: longFactors },
    },
    positions: 131072,
    attentionFactor: 1.1902380714238083,
    frequencies: [
      1, 0.301169301, 0.09090909091, 0.02529822128, 0.006666666667, 0.00158113883, 0.0003333333333,
      7.027283689e-5,
    ],
  },
];

describe('scaled frequencies', () => {
  it.each(recorded)('$name', ({ config, positions, attentionFactor, frequencies }) => {
    const { rotaryBase, rotaryScaling } = parse(config, { headSize: 16, positions });
    const found = scaleFrequencies(16, rotaryBase, rotaryScaling);
    expect(found).toHaveLength(8);
    found.forEach((frequency, pair) => {
      expect(frequency / frequencies[pair]! - 1).toBeCloseTo(0, 8);
    });
    expect(attentionFactorOf(rotaryScaling)).toBeCloseTo(attentionFactor, 12);
  });

  it('multiplies cosine and sine by the attention factor', () => {
    const { rotaryBase, rotaryScaling } = parse(recorded[0]!.config);
    const { cosine, sine } = createRotary({ headSize: 16, rotaryBase, rotaryScaling }).anglesAt(
      Int32Array.of(0, 1000),
    );
    expect(cosine[0]).toBeCloseTo(1.138629436, 6);
    // attention_factor * cos(1000 * frequency) of pair 3, in the same Python
    expect(cosine[8 + 3]).toBeCloseTo(-0.54071372, 5);
    expect(sine[8 + 3]).toBeCloseTo(-1.00205073, 5);
  });

  it('divides all by the factor when linear and none when dynamic', () => {
    const linear = scaleFrequencies(4, 100, { kind: 'linear', factor: 4 });
    expect([...linear]).toEqual([0.25, 0.025]);
    const dynamic = parse({ rope_theta: 100, rope_scaling: { type: 'dynamic', factor: 2 } });
    expect([...scaleFrequencies(4, 100, dynamic.rotaryScaling)]).toEqual([1, 0.1]);
  });
});

describe('where the base comes from', () => {
  it.each([
    [{}, 10000, 'default 10000'],
    [{ rope_theta: null, rope_scaling: null }, 10000, 'default 10000'],
    [{ rope_theta: 5e5, rope_scaling: {} }, 5e5, 'rope_theta of config.json'],
    [{ rope_parameters: { rope_theta: 1e6 } }, 1e6, 'rope_parameters.rope_theta of config.json'],
    [
      { rope_theta: 1e6, rope_parameters: { rope_type: 'default', rope_theta: 1e6 } },
      1e6,
      'rope_parameters.rope_theta of config.json',
    ],
  ])('%j', (config, rotaryBase, rotaryOrigin) => {
    expect(parse(config)).toEqual({ rotaryBase, rotaryOrigin, rotaryScaling: { kind: 'none' } });
  });
});

describe('settings that are refused', () => {
  it.each([
    [{ rope_scaling: { factor: 8 } }, /has factor in rope_scaling but no "rope_type"/],
    [
      { rope_scaling: { type: 'mrope', mrope_section: [2, 3, 3] } },
      /scaling "mrope", which is not supported/,
    ],
    [{ rope_scaling: { rope_type: 'su' } }, /"su", which is not supported/],
    [{ rope_scaling: { type: 'linear' } }, /"linear" without "factor" in rope_scaling/],
    [{ rope_scaling: { type: 'linear', factor: '4' } }, /has a bad "rope_scaling\.factor"/],
    [{ rope_scaling: 'yarn' }, /has a bad "rope_scaling": "yarn"; an object was expected/],
    [{ rope_theta: -1 }, /has rope_theta -1 beside none/],
    [
      { rope_theta: 1e4, rope_parameters: { rope_theta: 1e6 } },
      /rope_theta 10000 beside 1000000 in its rotary settings/,
    ],
    [
      { rope_scaling: { type: 'linear', factor: 2 }, rope_parameters: { rope_type: 'default' } },
      /both rope_scaling and rope_parameters/,
    ],
    [
      { rope_parameters: { full_attention: { rope_theta: 1e6 }, sliding_attention: { rope_theta: 1e4 } } },
      /each kind of layer rotary settings of its own \(rope_parameters: full_attention, sliding_attention\)/,
    ],
    [{ rope_parameters: { partial_rotary_factor: 0.5 } }, /to turn 0\.5 of each head/],
    [
      { rope_scaling: { type: 'longrope', short_factor: [1, 2], long_factor: longFactors } },
      /has 2 numbers in rope_scaling\.short_factor; 8 were expected/,
    ],
    [{ rope_scaling: { type: 'longrope', short_factor: shortFactors } }, /without "long_factor"/],
    [
      {
        original_max_position_embeddings: 1,
        rope_scaling: { type: 'longrope', short_factor: shortFactors, long_factor: longFactors },
      },
      /scales by longrope from 1 position on; more were expected/,
    ],
    [
      {
        original_max_position_embeddings: 4096,
        rope_scaling: { type: 'longrope', factor: 4, short_factor: shortFactors, long_factor: longFactors },
      },
      /has the factor 4 in rope_scaling, but reads 32768 positions after training on 4096, which is 8 times/,
    ],
    [
      {
        original_max_position_embeddings: 4096,
        rope_scaling: { type: 'yarn', factor: 4, original_max_position_embeddings: 8192 },
      },
      /has original_max_position_embeddings 4096 beside 8192/,
    ],
  ])('%j', (config, message) => {
    expect(() => parse(config)).toThrow(
      expect.objectContaining({
        name: 'MistletoeError',
        code: 'checkpoint',
        message: expect.stringMatching(message) as string,
        hint: expect.stringMatching(/Supported/) as string,
      }),
    );
  });
});
