/** The address of a queue: redis://, rediss:// (TLS), valkey:// or valkeys://, with a password if there is one. */
import { MistletoeError } from '../../core/errors.js';

export interface QueueAddress {
  /** With the password: for the client only. */
  readonly url: string;
  /** For people: without user and password. */
  readonly shown: string;
  /** Replaces the password wherever a library repeats it. */
  hide(text: string): string;
}

export function parseQueueUrl(given: string): QueueAddress {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url === undefined || !/^(?:redis|valkey)s?:$/.test(url.protocol) || url.hostname === '') {
    // What was given may contain a password, so it is not repeated.
    throw new MistletoeError('usage', 'The address of the queue is not a Redis URL.', {
      hint: 'Give redis://HOST:6379, rediss://HOST:6379 for TLS, or redis://:PASSWORD@HOST:6379/0.',
    });
  }
  const secrets = [url.password, decodeURIComponent(url.password)].filter((secret) => secret !== '');
  const address = `${url.protocol}//${url.host}${url.pathname === '/' ? '' : url.pathname}`;
  return {
    url: given.replace(/^valkey(s?):/, 'redis$1:'),
    shown: address,
    hide: (text) => secrets.reduce((shown, secret) => shown.replaceAll(secret, '***'), text),
  };
}
