// What POST /v1/feed/explain answered, in words.

import { moment } from './format.js';

const verbs = { block: 'blocked', hide: 'hidden', like: 'liked', seen: 'seen' };

/** Ids in a sentence are objects, {id}, so that they look different: strangers choose them. */
const id = (text) => ({ id: text });

/** sentenceOf says in one sentence what becomes of the post. */
export function sentenceOf(answer) {
  const drops = answer.reasons.filter((r) => r.effect === 'drop');
  if (!answer.dropped && answer.degraded.length > 0) return ['warn', 'A feed keeps this post now, but some kinds could not be checked.'];
  if (!answer.dropped) return ['ok', 'A feed keeps this post.'];
  if (drops.every((r) => r.certainty === 'false')) return ['warn', 'A feed drops this post because of a false positive. An exact feed keeps it.'];
  if (drops.every((r) => r.certainty !== 'certain')) return ['warn', 'A feed drops this post. The reason cannot be confirmed.'];
  return ['info', 'A feed drops this post. The reason is certain.'];
}

/** reasonOf returns the state of a reason and its lines. kinds are the service's, by name. */
export function reasonOf(reason, asked, kinds) {
  const lines = [what(reason, asked)];
  const drop = reason.effect === 'drop';
  if (reason.certainty === 'false') {
    lines.push([`The filter reports it, but the ledger does not have it: a false positive, until the page changes.`]);
    lines.push([drop ? 'What to do: nothing, if it is rare. A feed with "exact": true asks the ledger and keeps the post.' : 'What to do: nothing. A feed with "exact": true does not annotate it.']);
    return { state: 'warn', certainty: 'False positive', lines };
  }
  if (reason.certainty === 'unconfirmed') {
    lines.push([`Seen no earlier than ${moment(reason.since)}; forgotten by ${moment(reason.until)} at the latest. It is in ${reason.parts.length === 1 ? 'one part' : `${reason.parts.length} parts`} of its window.`]);
    lines.push([`It cannot be confirmed: kinds with a window are not in the ledger. What to do: wait, or leave "${reason.kind}" out of the "kinds" of the feed.`]);
    return { state: 'unknown', certainty: 'Not confirmed', lines };
  }
  lines.push([`The ledger has it, since ${moment(reason.since)}${reason.until ? `, until ${moment(reason.until)}` : ''}.`]);
  const path = undo(reason, asked, kinds);
  if (path) lines.push(['What to do: nothing, if this is intended. To undo it: ', id(`DELETE ${path}`)]);
  return { state: 'info', certainty: 'Certain', lines };
}

function what(reason, asked) {
  const byActor = reason.direction === 'by_actor';
  const [who, whom] = byActor ? [reason.actor, asked.viewer] : [asked.viewer, reason.actor || asked.post.id];
  const effect = reason.effect === 'drop' ? '' : ' This annotates the post, and does not drop it.';
  const role = roleOf(reason.actor, asked);
  const verb = verbs[reason.kind];
  if (reason.kind === 'seen') return [id(who), ' may have seen ', id(whom), `.${effect}`];
  if (verb && byActor) return [id(who), `${role && `${role},`} has ${verb} `, id(whom), `.${effect}`];
  if (verb) return [id(who), ` has ${verb} `, id(whom), `${role}.${effect}`];
  return ['“', reason.kind, '” by ', id(who), byActor && role ? `${role},` : '', ' of ', id(whom), `${byActor ? '' : role}.${effect}`];
}

function roleOf(actor, asked) {
  if (!actor) return '';
  return actor === asked.post.author ? ', the author' : ', on the post';
}

/** undo returns the path that takes the activity back. */
function undo(reason, asked, kinds) {
  const plural = kinds.get(reason.kind)?.plural;
  if (!plural) return null;
  const [who, whom] = reason.direction === 'by_actor' ? [reason.actor, asked.viewer] : [asked.viewer, reason.actor || asked.post.id];
  return `/v1/users/${encodeURIComponent(who)}/${plural}/${encodeURIComponent(whom)}`;
}
