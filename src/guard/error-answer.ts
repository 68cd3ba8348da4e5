/** Failures as clients of OpenAI's interface know them. */
import type { ServerResponse } from 'node:http';

export interface ErrorAnswer {
  readonly status: number;
  readonly message: string;
  readonly code: string;
  /** Names and values by turns. */
  readonly headers?: readonly string[];
}

export function errorBody({ status, message, code }: ErrorAnswer): string {
  const type = status >= 500 ? 'server_error' : status === 429 ? 'rate_limit_error' : 'invalid_request_error';
  return JSON.stringify({ error: { message, type, param: null, code } });
}

/** False where an answer had begun already and nothing can be said any more. */
export function answerError(response: ServerResponse, error: ErrorAnswer): boolean {
  if (response.headersSent || response.destroyed) return false;
  const body = errorBody(error);
  response.writeHead(error.status, [
    'Content-Type',
    'application/json',
    'Content-Length',
    String(Buffer.byteLength(body)),
    ...(error.headers ?? []),
  ]);
  response.end(body);
  return true;
}

/** The same on a connection on which no request could be read; nothing more is read from it. */
export function rawErrorAnswer(error: ErrorAnswer): string {
  const body = errorBody(error);
  const reason = reasons[error.status] ?? 'Error';
  return (
    `HTTP/1.1 ${error.status} ${reason}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
  );
}

const reasons: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  413: 'Payload Too Large',
  431: 'Request Header Fields Too Large',
  501: 'Not Implemented',
};
