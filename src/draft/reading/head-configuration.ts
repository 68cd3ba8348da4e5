/** The configuration of a head's layers, and settings in it that are refused. */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { MistletoeError } from '../../core/errors.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import type { Refuse, Reject } from './checks.js';
import { readDraftConfiguration, type KnownSizes } from './draft-configuration.js';

/** If config.json cannot be read, sizes come from the tensors and the rest is default. */
export function readHeadConfiguration(
  refuse: Refuse,
  checkpoint: Checkpoint,
  known: KnownSizes,
): ModelConfiguration {
  try {
    return readDraftConfiguration(checkpoint, known);
  } catch (fault) {
    if (!(fault instanceof MistletoeError)) throw fault;
    refuse(fault);
    const { headCount, keyValueHeadCount, headSize } = known;
    const readable = readDraftConfiguration(
      { ...checkpoint, config: { rms_norm_eps: 1e-6 } },
      { ...known, headCount: 1, keyValueHeadCount: 1, headSize: 2 }, // any even head size is valid here
    );
    return { ...readable, headCount, keyValueHeadCount, headSize };
  }
}

/**
 * Refuses position settings that engines ignore or interpret differently:
 * - dynamic `rope_scaling`: transformers stretches the base only for long sequences, vLLM and SGLang always, and
 * Hunyuan's heads mean a constant `alpha`
 * - longrope: factors for long sequences are not supported
 */
export function refuseUnusualPositions(
  { rotaryScaling }: ModelConfiguration,
  target: ModelConfiguration | undefined,
  reject: Reject,
): void {
  if (rotaryScaling.kind === 'dynamic') {
    const hint =
      'Engines compute it in different ways. Use a head without it; if yours was trained with plain angles, remove rope_scaling from its config.json.';
    reject('asks for the rotary scaling "dynamic", which is not supported in a head', hint);
  }
  if (rotaryScaling.kind === 'longrope' && target !== undefined) {
    const { originalContext } = rotaryScaling;
    if (target.contextLength > originalContext) {
      const fault = `asks for the rotary scaling "longrope" beyond ${originalContext} positions; the target reads ${target.contextLength}`;
      reject(fault, 'Its factors for longer sequences are not supported: use another head.');
    }
  }
}
