import { MistletoeError } from '../core/errors.js';

/** The request does not fit; a smaller one may. */
export class OutOfMemoryError extends MistletoeError {
  constructor(message: string, hint: string) {
    super('runtime', message, { hint });
  }
}

export class DeviceLostError extends MistletoeError {
  constructor(message: string, hint: string) {
    super('runtime', message, { hint });
  }
}

/** For cleanup: nothing is left to free on a lost device. */
export function ignoreLoss(cause: unknown): void {
  if (!(cause instanceof DeviceLostError)) throw cause;
}
