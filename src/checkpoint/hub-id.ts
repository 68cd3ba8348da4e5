/** Names of models on the Hugging Face hub: `lmsys/vicuna-7b-v1.5`, or with a branch, tag or commit behind an @. */
import { MistletoeError } from '../core/errors.js';

export interface HubId {
  /** ORG/NAME. */
  readonly repository: string;
  /** A branch, a tag or a commit; `main` where none was given. */
  readonly revision: string;
}

/**
 * The hub's own rules. Two dashes in a row are what the cache puts between the parts, and two dots lead elsewhere; a
 * path such as ./model or ../model breaks them, so it stays a path.
 */
const part = '(?!\\S*(?:--|\\.\\.))[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?';
const repositoryForm = new RegExp(`^${part}/${part}$`);
const revisionForm = /^(?!.*(?:\.\.|\/\/))[A-Za-z0-9_](?:[A-Za-z0-9._/-]{0,198}[A-Za-z0-9_])?$/;
const commitForm = /^[0-9a-f]{40}$/;

export const hubIdForm = 'ORG/NAME or ORG/NAME@REVISION';

/** Undefined where the text cannot be a name on the hub. */
export function parseHubId(text: string): HubId | undefined {
  const at = text.indexOf('@');
  const repository = at < 0 ? text : text.slice(0, at);
  if (!repositoryForm.test(repository)) return undefined;
  const revision = at < 0 ? 'main' : text.slice(at + 1);
  if (revisionForm.test(revision)) return { repository, revision };
  throw new MistletoeError(
    'usage',
    `The revision of ${repository} is ${JSON.stringify(revision.slice(0, 200))}; a branch, a tag or a commit was expected.`,
    { hint: 'Write letters, digits, dots, dashes and slashes behind the @, or leave it out for main.' },
  );
}

export function formatHubId({ repository, revision }: HubId): string {
  return revision === 'main' ? repository : `${repository}@${revision}`;
}

export function isCommit(revision: string): boolean {
  return commitForm.test(revision);
}
