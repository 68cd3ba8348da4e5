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

/** Sampling and stopping. */
const sampling = {
  frequency_penalty: neutral(0),
  presence_penalty: neutral(0),
  repetition_penalty: neutral(1),
  length_penalty: neutral(1),
  repetition_detection: neutral(),
  logit_bias: neutral({}),
  allowed_token_ids: neutral(),
  bad_words: neutral([]),
  min_p: neutral(0),
  min_tokens: neutral(0),
  ignore_eos: neutral(false),
  stop_token_ids: neutral([]),
  best_of: neutral(1),
  use_beam_search: neutral(false),
  thinking_token_budget: neutral(-1),
  structured_outputs: neutral(),
  guided_json: neutral(),
  guided_regex: neutral(),
  guided_choice: neutral(),
  guided_grammar: neutral(),
  response_format: neutral({ type: 'text' }),
};

/** Reading the prompt and writing the answer. */
const text = {
  echo: neutral(false),
  truncate_prompt_tokens: neutral(),
  truncation_side: neutral(),
  skip_special_tokens: neutral(true),
  spaces_between_special_tokens: neutral(true),
  include_stop_str_in_output: neutral(false),
  prompt_logprobs: neutral(),
  logprob_token_ids: neutral(),
  return_tokens_as_token_ids: neutral(false),
  return_token_ids: neutral(false),
  return_token_offsets: neutral(false),
  stream_interval: neutral(1),
};

/** Scheduling inside an engine. */
const engine = {
  priority: neutral(0),
  request_id: neutral(),
  kv_transfer_params: neutral({}),
  ec_transfer_params: neutral({}),
  vllm_xargs: neutral({}),
  routed_experts_prompt_start: neutral(0),
};

export const neutralFields = { ...sampling, ...text, ...engine };

export const neutralChatFields = {
  modalities: neutral(['text']),
  tools: neutral([]),
  tool_choice: neutral('none'),
  functions: neutral([]),
  function_call: neutral('none'),
  audio: neutral(),
  prediction: neutral(),
  reasoning_effort: neutral('none'),
  include_reasoning: neutral(true),
  verbosity: neutral(),
  web_search_options: neutral(),
  add_special_tokens: neutral(false), // the chat template writes them
  add_generation_prompt: neutral(true),
  continue_final_message: neutral(false),
  documents: neutral([]),
  chat_template: neutral(),
  chat_template_kwargs: neutral({}),
  mm_processor_kwargs: neutral({}),
  media_io_kwargs: neutral({}),
  return_prompt_text: neutral(false),
  return_assistant_tokens_mask: neutral(false),
};

export const neutralCompletionFields = {
  suffix: neutral(''),
  add_special_tokens: neutral(true),
  prompt_embeds: neutral(),
};

/** Fields of earlier answers that clients send back, empty if unused. */
export const neutralAnswerFields = {
  refusal: neutral(),
  audio: neutral(),
  annotations: neutral([]),
  tool_calls: neutral([]),
  function_call: neutral(),
  reasoning: neutral(),
  reasoning_content: neutral(),
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
