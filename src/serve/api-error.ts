/** Errors in OpenAI's format. Clients see no other failure. */
import { MistletoeError } from '../core/errors.js';

export interface ApiErrorDetails {
  readonly status: number;
  readonly code: string;
  readonly param?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly param: string | null;
  readonly headers: Readonly<Record<string, string>>;

  constructor(message: string, { status, code, param, headers = {}, cause }: ApiErrorDetails) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.param = param ?? null;
    this.headers = headers;
  }

  get body(): { readonly error: Readonly<Record<'message' | 'type' | 'param' | 'code', string | null>> } {
    const { message, status, param, code } = this;
    return { error: { message, type: typeOf(status), param, code } };
  }
}

function typeOf(status: number): string {
  if (status === 401 || status === 403) return 'authentication_error';
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}

export function badRequest(message: string, param?: string, code = 'invalid_value'): ApiError {
  return new ApiError(message, { status: 400, code, param });
}

/** Requests that the engine refuses are client errors; its own failures appear in the log only. */
export function apiErrorOf(cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  if (cause instanceof MistletoeError) {
    const { code, message } = cause;
    if (code === 'context')
      return new ApiError(message, { status: 400, code: 'context_length_exceeded', cause });
    if (code === 'usage' || code === 'text')
      return new ApiError(message, { status: 400, code: 'invalid_value', cause });
  }
  return new ApiError('The server failed to answer; its log says more.', {
    status: 500,
    code: 'internal_error',
    cause,
  });
}
