// Holds one tokenizer in a process of its own: what panics, hangs or grows here ends this process and no other.
// Plain JavaScript, so that it runs the same from src/ and dist/.
import { Tokenizer } from 'tokenizers';

/** @type {Tokenizer | undefined} */
let tokenizer;

/**
 * @typedef {{ kind: 'open', text: string, added: readonly string[], trial: string[] }
 *   | { kind: 'encode', texts: string[], addSpecialTokens: boolean }} Request
 */

/** @param {Request} request */
async function answer(request) {
  if (request.kind === 'open') {
    tokenizer = Tokenizer.fromString(request.text);
    tokenizer.disableTruncation();
    tokenizer.disablePadding();
    for (const addSpecialTokens of [true, false])
      await tokenizer.encodeBatch(request.trial, { addSpecialTokens });
    return { ids: request.added.map((content) => tokenizer?.tokenToId(content) ?? null) };
  }
  if (tokenizer === undefined) throw new Error('no tokenizer is open');
  const { texts, addSpecialTokens } = request;
  const encodings = await tokenizer.encodeBatch(texts, { addSpecialTokens });
  return { encoded: encodings.map((encoding) => encoding.getIds()) };
}

process.on('message', (/** @type {Request} */ request) => {
  answer(request).then(
    (result) => process.send?.(result),
    (/** @type {unknown} */ cause) => process.send?.({ error: String(cause).slice(0, 300) }),
  );
});
// Whoever asked is gone.
process.on('disconnect', () => process.exit());
