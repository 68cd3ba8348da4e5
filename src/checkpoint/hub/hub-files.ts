/** Files to download: config and tokenizer files by name, and one format of the weights. */
import { MistletoeError } from '../../core/errors.js';
import { fileLimits } from '../../core/limits.js';
import type { WeightLayout } from '../checkpoint-folder.js';
import { chooseLayout, describingNames } from '../checkpoint-folder.js';
import type { HubFile } from './hub-client.js';
import type { HubId } from './hub-settings.js';
import { formatHubId } from './hub-settings.js';
import { quote, refuse } from '../stored-tensor.js';

export interface ModelFiles {
  readonly describing: readonly HubFile[];
  readonly layout: WeightLayout;
}

export function selectFiles(id: HubId, files: readonly HubFile[]): ModelFiles {
  const name = formatHubId(id);
  const describing = files.filter(({ path }) => describingNames.includes(path));
  const large = describing.find(({ sizeBytes }) => sizeBytes > fileLimits.tokenizer);
  if (large !== undefined) {
    throw refuse(
      `${large.path} of ${name} has ${large.sizeBytes} bytes, at most ${fileLimits.tokenizer} are read`,
      'Check that it is the right model.',
    );
  }
  const names = files.map(({ path }) => path).filter((path) => !path.includes('/'));
  return { describing, layout: chooseLayout(name, names) };
}

export function requireFile(id: HubId, files: readonly HubFile[], path: string): HubFile {
  const file = files.find((each) => each.path === path);
  if (file !== undefined) return file;
  throw new MistletoeError(
    'checkpoint',
    `The index of ${formatHubId(id)} names the file ${quote(path)}, which the repository does not have.`,
    { hint: 'Its upload is not whole: use another revision, or tell its author.' },
  );
}
