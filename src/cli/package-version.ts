import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../decode/bundled-models.js';

export function readVersion(): string {
  const contents = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string };
  return contents.version;
}
