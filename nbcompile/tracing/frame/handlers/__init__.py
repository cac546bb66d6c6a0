"""Handlers: the effect of each instruction on the symbolic frame, by family.

In torch: the methods of InstructionTranslatorBase, named after opcodes.
"""
