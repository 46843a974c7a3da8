"""Lets learners use what they have built: train their own model and talk to it. Runs their code in this process, without a jail, as
`check --debug` does: nothing here is secret, and nothing is judged."""
