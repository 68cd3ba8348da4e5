/** docs/library.md, and the examples in it. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

export const page = readFileSync(resolve(import.meta.dirname, '../../docs/library.md'), 'utf8');
export const examples = [...page.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code!);
