/**
 * Who may see the guard's own pages. With a key: whoever has it. Without: connections from this machine, asked for by an
 * address, localhost or a name that the operator listed; other names may be a page elsewhere that had its own name point
 * here (DNS rebinding).
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { isLoopback } from '../core/loopback.js';

export interface OperatorAccess {
  readonly key: string | undefined;
  /** Names under which the guard is known, beside addresses and localhost. */
  readonly hosts: readonly string[];
}

export interface AccessRefusal {
  readonly status: 401 | 403;
  readonly message: string;
}

export function refuseOperator(
  request: Pick<IncomingMessage, 'headers' | 'socket'>,
  { key, hosts }: OperatorAccess,
): AccessRefusal | undefined {
  if (key !== undefined) {
    const [, given] = /^bearer +(\S+) *$/i.exec(request.headers.authorization ?? '') ?? [];
    if (given !== undefined && equalKeys(given, key)) return undefined;
    return { status: 401, message: 'The operator’s key is needed, as Authorization: Bearer KEY.' };
  }
  // An IPv4 address on a socket for both is written as one of IPv6.
  if (!isLoopback((request.socket.remoteAddress ?? '').replace(/^::ffff:/, ''))) {
    return {
      status: 403,
      message: 'Without an operator’s key this is shown on the guard’s own machine only.',
    };
  }
  const name = (request.headers.host ?? '')
    .replace(/:\d+$/, '')
    .replace(/^\[|\]$/g, '')
    .toLowerCase();
  const isKnown =
    name === 'localhost' || isIP(name) !== 0 || hosts.some((host) => host.toLowerCase() === name);
  if (isKnown) return undefined;
  return { status: 403, message: 'This name of the guard is not known to it; see operator.hosts.' };
}

/** In the same time whatever is wrong: hashes are of one length, and none of their bytes tells of the key's. */
export function equalKeys(one: string, other: string): boolean {
  const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(one), hash(other));
}
