/** What `inspect` says of an EAGLE head beyond its sizes: the very parts that the loader would run. */
import type { Problem } from '../checkpoint/open-checkpoint.js';
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { DrafterFacts } from './drafter-facts.js';
import type { Eagle3Parts, EagleParts } from './eagle-parts.js';
import { describeEagle, describeEagle3 } from './eagle-parts.js';
import { readTapRule } from './taps.js';
import { unreadProblems } from './unread-tensors.js';

/** Heads of a config.json that names none are the target's, which is not there: sizes that fit any. */
const anyHeads = { headCount: 1, keyValueHeadCount: 1, headSize: 2, vocabularySize: 1 };

export interface EagleReading {
  readonly facts: Pick<DrafterFacts, 'rotary' | 'traits'> & { readonly tapRule?: string };
  readonly problems: readonly Problem[];
}

export function readEagleFacts(system: 'eagle' | 'eagle3', checkpoint: Checkpoint): EagleReading {
  const describe = system === 'eagle' ? describeEagle : describeEagle3;
  const parts = describe(checkpoint, '', anyHeads);
  const { rotaryBase: base, rotaryOrigin: origin } = parts.configuration;
  return {
    facts: {
      rotary: { base, origin },
      traits: listTraits(parts),
      ...(system === 'eagle' ? {} : { tapRule: describeTaps(checkpoint) }),
    },
    problems: unreadProblems(parts.unread),
  };
}

function describeTaps(checkpoint: Checkpoint): string {
  const { listed, origin } = readTapRule(checkpoint);
  return listed === undefined ? origin : `${listed.join(', ')} (${origin})`;
}

function listTraits(parts: EagleParts | Eagle3Parts): readonly string[] {
  const { configuration, ownVocabulary, hasFusionBias, hasOutputBias } = parts;
  const is3 = 'fusionNorm' in parts;
  const traits: readonly (readonly [boolean, string])[] = [
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
