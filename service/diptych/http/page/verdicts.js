// What a probability comes to, as the service says it, in words.

const WORDS = {
  thing: {
    same: "The same thing",
    likely: "Probably the same thing",
    unsure: "Perhaps the same thing",
    different: "Not the same thing",
  },
  copy: { same: "A copy", likely: "Probably a copy", unsure: "Perhaps a copy", different: "Not a copy" },
};

/** A model of one question answers it whatever is asked. */
export const words = (verdict, question = "thing") => (WORDS[question] ?? WORDS.thing)[verdict] ?? "";

/** Whether a match or an answer counts as one: the same thing, or probably. */
export const isMatch = ({ verdict }) => verdict === "same" || verdict === "likely";
