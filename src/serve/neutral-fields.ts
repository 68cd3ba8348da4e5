/**
 * Unsupported fields that clients of OpenAI and vLLM send with their default value. The default is accepted; any other
 * value is refused by the field's name. Defaults are those of vLLM's request schemas.
 */
import { z } from 'zod';

/** Accepts the field if it is absent, null, or one of these values. */
export function neutral(...allowed: readonly unknown[]) {
  const isAllowed = (value: unknown): boolean =>
    value === undefined || value === null || allowed.some((one) => isSame(one, value));
  const values = allowed.map((value) =>
    typeof value === 'string' && value !== '' ? value : JSON.stringify(value),
  );
  const error = `is not supported; leave it out${values.length === 0 ? '' : `, or give ${values.join(' or ')}`}`;
  return z.unknown().refine(isAllowed, { error }).optional();
}

/**
 * The same for several names, separated by blanks. They have no effect, so the types of requests leave them out; the
 * schemas know them.
 */
function neutrals(names: string, ...allowed: readonly unknown[]): Readonly<Record<never, z.ZodType>> {
  return Object.fromEntries(names.split(' ').map((name) => [name, neutral(...allowed)]));
}

export const neutralFields = {
  // Sampling and stopping.
  ...neutrals('frequency_penalty presence_penalty min_p min_tokens', 0),
  ...neutrals('repetition_penalty length_penalty best_of', 1),
  ...neutrals('thinking_token_budget', -1),
  ...neutrals('ignore_eos use_beam_search', false),
  ...neutrals('bad_words stop_token_ids', []),
  ...neutrals('logit_bias', {}),
  ...neutrals('response_format', { type: 'text' }),
  ...neutrals('repetition_detection allowed_token_ids structured_outputs'),
  ...neutrals('guided_json guided_regex guided_choice guided_grammar'),
  // Reading the prompt and writing the answer.
  ...neutrals('echo include_stop_str_in_output return_tokens_as_token_ids', false),
  ...neutrals('return_token_ids return_token_offsets', false),
  ...neutrals('skip_special_tokens spaces_between_special_tokens', true),
  ...neutrals('truncate_prompt_tokens truncation_side prompt_logprobs logprob_token_ids'),
  ...neutrals('stream_interval', 1),
  // Scheduling inside an engine.
  ...neutrals('priority routed_experts_prompt_start', 0),
  ...neutrals('kv_transfer_params ec_transfer_params vllm_xargs', {}),
  ...neutrals('request_id'),
};

export const neutralChatFields = {
  ...neutrals('modalities', ['text']),
  ...neutrals('tools functions documents', []),
  ...neutrals('tool_choice function_call reasoning_effort', 'none'),
  ...neutrals('audio prediction verbosity web_search_options chat_template'),
  ...neutrals('include_reasoning add_generation_prompt', true),
  // The chat template writes special tokens.
  ...neutrals('add_special_tokens continue_final_message return_prompt_text', false),
  ...neutrals('return_assistant_tokens_mask', false),
  ...neutrals('chat_template_kwargs mm_processor_kwargs media_io_kwargs', {}),
};

export const neutralCompletionFields = {
  ...neutrals('suffix', ''),
  ...neutrals('add_special_tokens', true),
  ...neutrals('prompt_embeds'),
};

/** Fields of earlier answers that clients send back, empty if unused. */
export const neutralAnswerFields = {
  ...neutrals('annotations tool_calls', []),
  ...neutrals('refusal audio function_call reasoning reasoning_content'),
};

/** Compares to the depth of the allowed value only. */
function isSame(allowed: unknown, given: unknown): boolean {
  if (typeof allowed !== 'object' || allowed === null) return allowed === given;
  if (typeof given !== 'object' || given === null || Array.isArray(given) !== Array.isArray(allowed))
    return false;
  const entries = Object.entries(allowed);
  return (
    entries.length === Object.keys(given).length &&
    entries.every(
      ([key, value]) => Object.hasOwn(given, key) && isSame(value, given[key as keyof typeof given]),
    )
  );
}
