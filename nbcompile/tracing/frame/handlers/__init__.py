"""What each instruction does to the symbolic frame, by family.

In torch: the methods of InstructionTranslatorBase, named after opcodes.
"""
