// Many pictures into the collection: in batches that the service takes, and one by one where a batch is refused.

import { Fault, api, named } from "./api.js";
import { bytes } from "./dom.js";

// Small, so that the count moves, a cancel loses little, and no request takes long.
const BATCH_PICTURES = 16;
const BATCH_BYTES = 16e6;
const PART_BYTES = 1024; // what a form adds to each file, and more
const PATIENCE = 5;

/** The items, [{ file, path }, ...], in batches within `limits`; one that is too large for any is alone in its own. */
function batches(items, limits) {
  const most = Math.min(limits.pictures, BATCH_PICTURES);
  const room = Math.min(limits.body_bytes - PART_BYTES, BATCH_BYTES);
  const made = [];
  let [batch, size] = [[], 0];
  for (const item of items) {
    const more = item.file.size + PART_BYTES;
    if (batch.length && (batch.length === most || size + more > room)) {
      made.push(batch);
      [batch, size] = [[], 0];
    }
    batch.push(item);
    size += more;
  }
  if (batch.length) made.push(batch);
  return made;
}

/**
 * Add all items to a collection (null: the service knows which). `onProgress({ done, created, known, failed })` after every request; `failed` has { item, error }.
 * What ends it early, a cancel, silence, a service that is ending or stays too busy, or a key that may only read, is
 * thrown with `left`, the items not yet sent.
 */
export async function addAll(items, limits, { collection, signal, onProgress }) {
  const report = { done: 0, created: 0, known: 0, failed: [] };
  const queue = batches(items, limits);
  while (queue.length) {
    const batch = queue.shift();
    const [{ item, error } = {}] = batch.length === 1 ? tooLarge(batch[0], limits) : [];
    try {
      if (error) {
        report.failed.push({ item, error });
      } else {
        const { data } = await send(batch, collection, signal);
        const created = data.filter((added) => added.created).length;
        report.created += created;
        report.known += batch.length - created;
      }
    } catch (fault) {
      if (await endsAll(fault, signal)) throw Object.assign(fault, { left: [batch, ...queue].flat() });
      if (batch.length > 1) {
        // A request adds all or none: alone, only the bad ones are refused.
        queue.unshift(...batch.map((single) => [single]));
        continue;
      }
      const [single] = batch;
      if (fault.status === 0) fault.message = "could not be read, or was too much for one request";
      report.failed.push({ item: single, error: named(fault, { images: single.path }) });
    }
    report.done += batch.length;
    onProgress(report);
  }
  return report;
}

function tooLarge(item, limits) {
  const most = Math.min(limits.picture_bytes, limits.body_bytes - PART_BYTES);
  if (item.file.size <= most) return [];
  return [{ item, error: new Fault(`has ${bytes(item.file.size)}; at most ${bytes(most)} are accepted`) }];
}

async function send(batch, collection, signal) {
  const body = new FormData();
  for (const { file } of batch) body.append("images", file, file.name || "Pasted picture");
  if (collection !== null) body.append("collection", collection);
  for (let turn = 1; ; turn += 1) {
    try {
      return await api("/v1/images", { method: "POST", body, signal });
    } catch (error) {
      if (error.status !== 429 || turn === PATIENCE) throw error;
      await pause(Math.min(10, error.after * turn), signal);
    }
  }
}

async function endsAll(error, signal) {
  if (error.name === "AbortError" || [401, 403, 429, 501, 503].includes(error.status)) return true;
  if (!(error instanceof Fault)) return true;
  if (error.status !== 0) return false;
  // A file that is gone fails as a service that is gone does; only asking tells.
  return api("/healthz", { signal }).then(() => false, () => true);
}

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("cancelled", "AbortError"));
    }, { once: true });
  });
}
