/** Requests about keys and their usage. */

import { getJson, sendJson } from "./http";
import type { CurrentKeyAnswer, KeyAnswer, KeyBody, KeyUsedAnswer, PageOfKeyAnswer, PageOfKeyUsedAnswer, UsedAnswer } from "./schema";

export const currentKey = (): Promise<CurrentKeyAnswer> => getJson("/v1/key");
export const keys = async (): Promise<KeyAnswer[]> => (await getJson<PageOfKeyAnswer>("/v1/keys?limit=1000")).items;
export const createKey = (body: KeyBody): Promise<KeyAnswer> => sendJson("POST", "/v1/keys", body);
export const revokeKey = (id: string): Promise<void> => sendJson("DELETE", `/v1/keys/${encodeURIComponent(id)}`);
export const usage = (days: number): Promise<UsedAnswer> => getJson(`/v1/usage?days=${days}`);
export const usageByKey = async (days: number): Promise<KeyUsedAnswer[]> =>
  (await getJson<PageOfKeyUsedAnswer>(`/v1/usage/keys?days=${days}&limit=1000`)).items;
