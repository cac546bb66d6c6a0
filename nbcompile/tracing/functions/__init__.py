"""What known functions mean while tracing: tables from callable to handler.

In torch: torch/_dynamo/variables/builtin.py and torch.py.
"""
