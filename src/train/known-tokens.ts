/** Answers and suffixes lie in files of a run, which somebody may have changed or brought from another target. */
import { MistletoeError } from '../core/errors.js';
import type { Example } from './examples.js';

/** `file`: where the texts were read from. */
export function refuseUnknownTokens(
  examples: readonly Example[],
  vocabularySize: number,
  file: string,
): readonly Example[] {
  for (const { id, tokens } of examples) {
    const unknown = tokens.find((token) => token < 0 || token >= vocabularySize);
    if (unknown === undefined) continue;
    throw new MistletoeError(
      'checkpoint',
      `${file} has the token ${unknown} in the text ${id}, but the target has ${vocabularySize} tokens.`,
      { hint: 'It is of another target, or damaged: remove its line, and the text is made again.' },
    );
  }
  return examples;
}
