/** A drafter's checkpoint while it is described, by a loader or by `inspect`. */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { MistletoeError } from '../../core/errors.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import type { DescribingContext } from '../draft-system.js';
import { misfit, requireSizes } from './checks.js';
import { flattenConfig, type Config } from './draft-configuration.js';

export interface Reading extends Checkpoint {
  /** config.json without its nesting. */
  readonly settings: Config;
  readonly target: ModelConfiguration | undefined;
  /** A loader throws the problem; an inspection records it and continues. */
  readonly reject: (fault: string, hint: string) => void;
  /** Undefined after a fault that was recorded. */
  readonly attempt: <Result>(read: () => Result) => Result | undefined;
}

export function startReading(checkpoint: Checkpoint, { refuse, target }: DescribingContext): Reading {
  const refuseOrThrow = (fault: MistletoeError): void => {
    if (refuse === undefined) throw fault;
    refuse(fault);
  };
  const settings = flattenConfig(checkpoint.config);
  if (target !== undefined) requireSizes(checkpoint.folder, settings, target);
  return {
    ...checkpoint,
    settings,
    target,
    reject(fault, hint) {
      refuseOrThrow(misfit(checkpoint.folder, fault, hint));
    },
    attempt(read) {
      try {
        return read();
      } catch (fault) {
        if (!(fault instanceof MistletoeError)) throw fault;
        refuseOrThrow(fault);
        return undefined;
      }
    },
  };
}

/** Those of the optional parts and settings that a head has. */
export const listTraits = (traits: readonly (readonly [boolean, string])[]): readonly string[] =>
  traits.flatMap(([has, trait]) => (has ? [trait] : []));
