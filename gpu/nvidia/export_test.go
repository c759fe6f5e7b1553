package nvidia

// HeldBy begins a comment in a source that the fake's compiler holds.
const HeldBy = heldBy
