import { actionNames } from './alarm.js';

/** Actions that a proxy can take; drafters are switched by our own server alone. */
export const guardActions = actionNames.filter((name) => name !== 'switch-drafter');
