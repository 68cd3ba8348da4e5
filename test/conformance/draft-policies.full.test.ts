import { describeDraftPolicies } from './draft-policies.js';

describeDraftPolicies('full');
