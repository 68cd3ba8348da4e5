/** Errors in the format of OpenAI's API. */
import type { ServerResponse } from 'node:http';

export interface ErrorResponse {
  readonly status: number;
  readonly message: string;
  readonly code: string;
  /** Names and values alternate. */
  readonly headers?: readonly string[];
}

export function errorBody({ status, message, code }: ErrorResponse): string {
  const type = status >= 500 ? 'server_error' : status === 429 ? 'rate_limit_error' : 'invalid_request_error';
  return JSON.stringify({ error: { message, type, param: null, code } });
}

/** Returns false where a response has already started. */
export function sendError(response: ServerResponse, error: ErrorResponse): boolean {
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

/** For a connection whose request could not be parsed. */
export function rawErrorResponse(error: ErrorResponse): string {
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
