import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { flattenConfig } from '../reading/draft-configuration.js';
import type { DrafterFacts, ReadingOptions } from '../draft-system.js';
import { unlessRefused, type Refuse } from '../reading/checks.js';
import { sizeIn } from '../reading/drafter-reading.js';
import type { Eagle3Parts, EagleParts } from './eagle-parts.js';
import { describeTapRule, readTapRule, unknownTaps } from './taps.js';

export function describeEagleFacts({ config }: Checkpoint, parts: EagleParts): DrafterFacts {
  const { hiddenSize } = parts.configuration;
  const vocabularySize = parts.ownVocabulary ?? sizeIn(flattenConfig(config), 'vocab_size');
  return {
    hiddenSize,
    draftVocabularySize: vocabularySize,
    ...describeLayer(parts),
    expects: { hiddenSize, vocabularySize },
  };
}

export function describeEagle3Facts(
  checkpoint: Checkpoint,
  parts: Eagle3Parts,
  refuse: Refuse,
  options: ReadingOptions = {},
): DrafterFacts {
  const { tensors } = checkpoint;
  const config = flattenConfig(checkpoint.config);
  const { hiddenSize } = parts.configuration;
  const targetHidden = sizeIn(config, 'target_hidden_size') ?? hiddenSize;
  const taps = parts.stateWidth / targetHidden;
  const known = tensors.get('t2d') ?? tensors.get('model.t2d');
  return {
    hiddenSize,
    draftVocabularySize: parts.draftVocabulary,
    ...describeLayer(parts),
    expects: {
      hiddenSize: targetHidden,
      vocabularySize: known?.shape[0] ?? sizeIn(config, 'vocab_size'),
      taps: Number.isInteger(taps) ? taps : undefined,
      tapRule: unlessRefused(refuse, () => describeTaps(checkpoint, refuse, options.taps)),
    },
  };
}

function describeTaps(checkpoint: Checkpoint, refuse: Refuse, given: ReadingOptions['taps']): string {
  const rule = readTapRule(checkpoint);
  const { listed, convention, reason } = rule;
  if (listed !== undefined && convention === undefined && given === undefined)
    refuse(unknownTaps(checkpoint.folder, listed, reason));
  return describeTapRule(rule, given);
}

function describeLayer(
  parts: EagleParts | Eagle3Parts,
): Pick<DrafterFacts, 'rotary' | 'traits' | 'maskToken'> {
  const { rotaryBase: base, rotaryOrigin: origin } = parts.configuration;
  const maskToken = 'maskToken' in parts ? parts.maskToken : undefined;
  return { rotary: { base, origin }, traits: listTraits(parts), maskToken };
}

function listTraits(parts: EagleParts | Eagle3Parts): readonly string[] {
  const { configuration, ownVocabulary, hasFusionBias, hasOutputBias, window } = parts;
  const windowText = `a sliding window of ${window?.length ?? 0} positions`;
  const is3 = 'fusionNorm' in parts;
  const traits: readonly (readonly [boolean, string])[] = [
    [configuration.layerCount > 1, `${configuration.layerCount} layers`],
    [window?.isMixed === false, windowText],
    [window?.isMixed === true, `${windowText} in some layers, where drafts end`],
    [ownVocabulary !== undefined, 'embeddings of its own'],
    [!is3 && parts.draftVocabulary !== undefined, 'an output projection of its own'],
    [hasFusionBias, 'fc bias'],
    [hasOutputBias, 'output bias'],
    [configuration.queryKeyValueBias, 'attention bias'],
    [configuration.queryKeyNorm, 'query and key norms'],
    [is3 && parts.fusionNorm === 'joined', 'norm_before_fc'],
    [is3 && parts.fusionNorm === 'each', 'fc_norm'],
    [is3 && parts.normBeforeResidual, 'norm_before_residual'],
    [is3 && parts.feedsNormed, 'norm_output'],
  ];
  return traits.flatMap(([has, trait]) => (has ? [trait] : []));
}
