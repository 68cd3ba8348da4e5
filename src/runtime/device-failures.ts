/** Failures of a device that callers can do something about. */
import { MistletoeError } from '../core/errors.js';

/** What was asked for at once does not fit on the device: less of it may. */
export class OutOfMemoryError extends MistletoeError {
  constructor(message: string, hint: string) {
    super('runtime', message, { hint });
  }
}

/** The device cannot be used by this process any more: everything that it held is gone. */
export class DeviceLostError extends MistletoeError {
  constructor(message: string, hint: string) {
    super('runtime', message, { hint });
  }
}

/** For giving things back: on a device that is lost there is nothing left to give, and what failed first has said so. */
export function ignoreLoss(cause: unknown): void {
  if (!(cause instanceof DeviceLostError)) throw cause;
}
