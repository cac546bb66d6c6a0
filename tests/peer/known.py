"""The known disagreements of nbcompile with its oracle; the aim is an empty table.

Each entry is a strict expected failure: when the disagreement goes away, the
test fails until the entry is deleted.

    ("program", "aspect"): "What torch does. What nbcompile does."

In torch: nothing. Read next: tests/peer/test_programs.py
"""

import sys

from nbcompile.support import versions


def _known(name: str, aspects: str, reason: str) -> dict[tuple[str, str], str]:
    """One reason for several aspects of one program."""
    return {(name, aspect): reason for aspect in aspects.split()}


KNOWN: dict[tuple[str, str], str] = {
    **{
        (name, "reasons"): "Both compilers reject a view of a strided nested tensor. torch reports an earlier step."
        for name in ("jagged_sdpa", "jagged_sdpa_contiguous")
    },
    **_known(
        "iterators_are_returned",
        "graphs details reasons",
        (
            "torch skips a frame that returns an iterator of the library. nbcompile rebuilds "
            "the iterator, and compiles the rest."
        ),
    ),
    **{
        at: (
            "torch breaks at functions of heapq and bisect, which are written in C. "
            "nbcompile traces polyfills in Python."
        )
        for at in (("heap_bisect", "reasons"), ("heaps_and_bisection", "details"), ("heaps_and_bisection", "reasons"))
    },
    **{
        (
            program,
            aspect,
        ): (
            "torch specialises a size that is formatted, and compiles a graph for each "
            "value. nbcompile formats it after the graph."
        )
        for program in ("text_of_a_dynamic_size", "text_of_a_size")
        for aspect in ("graphs", "details", "reasons")
    },
    (
        "overriding_wrapper_linear",
        "reasons",
    ): "torch adds a number of its own to the name of the check of a wrapper's context.",
    ("comptime_breaks_the_graph", "reasons"): "torch has a separate kind of graph break for comptime.",
    (
        "context_variables_and_thread_state",
        "details",
    ): "torch 2.13 breaks at calls of a context variable, so that the tensor comes from the stack. nbcompile traces them.",
    **_known(
        "warnings_are_filtered",
        "graphs details reasons",
        "torch breaks where warning filters are set. nbcompile traces that.",
    ),
    **{
        (
            name,
            "reasons",
        ): (
            "torch breaks where filters are set, and nbcompile at the warning. Neither "
            "resumes inside the context manager."
        )
        for name in ("warning_inside_of_its_filter", "operator_warns_inside_of_a_filter")
    },
    **{
        (name, aspect): "torch reads versions by an operator of its own compiler, which nbcompile does not import."
        for name in ("version_of_an_input_is_preserved", "version_of_a_saved_tensor_is_preserved")
        for aspect in ("graphs", "details")
    },
    (
        "break_while_a_version_is_preserved",
        "reasons",
    ): "Neither compiler ends a graph inside the context manager. The messages differ.",
    **{
        (name, "reasons"): "torch breaks where an SDPAParams is created from the tensors. nbcompile traces that."
        for name in ("attention_params_are_returned", "attention_params_over_a_break")
    },
    **_known(
        "attention_params_from_outside",
        "graphs details",
        "torch creates the parameters again in the graph. nbcompile reads them.",
    ),
    **{
        (
            name,
            "details",
        ): (
            "If two results are the same tensor, as x.contiguous() and x may be, nbcompile "
            "returns one output of the graph."
        )
        for name in ("in_place_methods_in_a_chain", "copies_of_a_tensor", "conversions")
    },
    **_known(
        "maximum_of_tensors_by_python",
        "graphs details",
        (
            "torch uses torch.maximum, which differs from eager mode for NaN, zeros and "
            "ties. nbcompile compares and selects."
        ),
    ),
    ("generic_namedtuple", "reasons"): "torch breaks where a subscripted class is created. nbcompile traces that.",
    (
        "namedtuple_subclass_attribute_set_inside",
        "details",
    ): "nbcompile orders the outputs of the graph as the items of the tuple.",
    **_known("entries_of_a_class_dict", "graphs details reasons", "torch breaks at a missing entry."),
    **_known(
        "entry_of_a_class_dict_changes",
        "details reasons",
        ("A number that changed becomes an input. nbcompile orders it like an attribute, torch after the tensor."),
    ),
    **_known(
        "namedtuple_attribute_is_deleted",
        "graphs details reasons",
        "torch breaks where an attribute of a named tuple is deleted.",
    ),
    **_known(
        "a_gradient_that_is_not_materialised_is_missing",
        "graphs details reasons",
        (
            "torch passes zeros instead of None for a missing gradient, and the result is "
            "wrong. nbcompile breaks the graph."
        ),
    ),
    **_known(
        "grad_mode_is_set_in_c_to_a_number",
        "graphs details reasons",
        "torch breaks at an argument that is not a bool. nbcompile traces the TypeError.",
    ),
    **_known(
        "tensors_as_of_symbolic_bools", "graphs details reasons", "torch fails at torch.as_tensor of a symbolic bool."
    ),
    (
        "disabled_module_inside",
        "reasons",
    ): ("A disabled module breaks the graph in both compilers. torch's reason has the name of the forward function."),
    ("dtype_is_an_argument", "reasons"): "torch guards the identity of a dtype. nbcompile guards equality.",
    **_known(
        "function_recorded_by_torch_jit",
        "graphs details reasons",
        (
            "torch traces the Python function, which may branch differently from the "
            "recorded graph. nbcompile runs the recorded graph."
        ),
    ),
    (
        "loss_is_made_inside",
        "details",
    ): ("torch passes the arguments of F.cross_entropy by position. nbcompile traces the module's forward."),
    **{
        (
            name,
            "details",
        ): ("torch passes the values of all inlined frames in one list, and the input has the name of that list.")
        for name in (
            "nested_breaks_the_new_way",
            "nested_break_in_a_property_and_in_getitem",
            "nested_break_under_a_context_of_the_callee",
            "nested_break_under_contexts_of_both",
        )
    },
    (
        "a_module_is_converted_inside",
        "reasons",
    ): (
        "torch treats a parameter and its new value as different kinds of tensors, and "
        "replaces it. nbcompile does as eager mode."
    ),
    (
        "thread_local_with_its_own_setattr",
        "details",
    ): ("torch reads the value passed to __setattr__ of a thread-local object, not the value that was stored."),
    **{
        (
            name,
            "details",
        ): (
            "torch converts a drawn number to a tensor input with a dtype of its own. In "
            "nbcompile it is a symbolic number."
        )
        for name in (
            "draws_of_the_module",
            "draws_by_keyword",
            "generator_made_inside",
            "generator_from_outside",
            "generator_is_seeded",
            "state_is_put_back",
            "seed_of_the_module_breaks",
            "draws_around_a_break",
            "drawn_number_decides",
            "drawn_number_is_formatted",
            "drawn_number_is_not_used",
            "draw_with_arguments",
        )
    },
    **_known(
        "drawn_number_is_a_size",
        "graphs details reasons",
        "torch breaks at the size, and compiles each size separately. nbcompile compiles one graph.",
    ),
    **_known(
        "parts_of_a_state",
        "graphs details",
        "torch treats the words of a generator's state as constants, and the result is wrong.",
    ),
    **_known(
        "a_word_of_a_state_is_computed_with",
        "graphs details",
        "torch treats the words of a generator's state as constants, and the result is wrong.",
    ),
    **_known(
        "delattr_is_traced_once", "graphs details reasons", "torch breaks at object.__delattr__. nbcompile traces it."
    ),
    **_known("hook_of_a_result_is_removed", "graphs details reasons", "torch fails at handle.remove()."),
    **_known(
        "large_integers",
        "graphs details reasons",
        ("nbcompile treats an int near the limit of int64 as a constant. torch's graphs compute modulo 2**64."),
    ),
    # -- symbols --------------------------------------------------------------------------
    (
        "dynamic_sizes_are_returned",
        "details",
    ): "torch reads x.shape again after the graph. In nbcompile the sizes are outputs of the graph.",
    ("ft_cmp_to_key", "reasons"): "torch breaks at functools.cmp_to_key, which is written in C. nbcompile traces it.",
    ("strided_views", "reasons"): "torch breaks at storage_offset(). nbcompile traces it.",
    **_known("storage_offsets", "graphs details reasons", "torch breaks at storage_offset(). nbcompile traces it."),
    ("numbers_nested_in_containers", "details"): "torch adds numbers to the inputs of the graph after the tensors.",
    (
        "an_assertion_about_an_item",
        "reasons",
    ): (
        "nbcompile reports a failed assertion as the exception that it raises. torch has "
        "a separate kind of graph break."
    ),
    # -- __torch_function__ --------------------------------------------------------------
    (
        "truth_of_numbers_in_c",
        "reasons",
    ): "torch breaks at the truth value of a decimal number. nbcompile evaluates it.",
    **_known(
        "branch_on_a_number_in_c",
        "graphs details reasons",
        "torch skips the frame at the truth value of a decimal number.",
    ),
    **_known(
        "equality_of_a_text_of_data",
        "graphs details reasons",
        (
            "torch breaks where the text is formatted, and compiles two graphs. nbcompile "
            "breaks at the comparison, after one graph."
        ),
    ),
    ("plain_subclass_argument", "reasons"): (
        "torch has a separate guard for the class of a tensor subclass. In nbcompile the tensor's guard includes it."
    ),
    **_known(
        "subclass_with_torch_function",
        "graphs details",
        ("In nbcompile the result of an override has the subclass, as in eager mode. torch returns a plain tensor."),
    ),
    **_known(
        "subclass_made_inside",
        "graphs details reasons",
        "torch traces as_subclass only for the class of an argument.",
    ),
    **_known(
        "the_environment_decides",
        "graphs details reasons",
        "torch has no guard on os.environ, and the result is wrong. nbcompile recompiles.",
    ),
    **_known("a_copied_object_with_slots", "graphs details reasons", "torch does not copy slots, and skips the frame."),
    **dict.fromkeys(
        [("mutation_seen_through_an_alias", each) for each in ("graphs", "details", "reasons")],
        ("nbcompile recompiles if two arguments are the same list. torch has no guard on it, and the result is wrong."),
    ),
    **dict.fromkeys(
        [("constants_of_each_type_change", each) for each in ("graphs", "reasons")],
        (
            "torch guards each item of a tuple whose truth value is used. nbcompile guards "
            "the length, and recompiles less often."
        ),
    ),
    **dict.fromkeys(
        [("class_attribute_changes", each) for each in ("details", "reasons")],
        ("torch's source of a class attribute is the dict of the defining class. nbcompile's source is type(child).k."),
    ),
    **dict.fromkeys(
        [("method_is_replaced", each) for each in ("graphs", "details", "reasons")],
        (
            "nbcompile recompiles for a replaced method. torch has no guard on the methods "
            "of a class, and the result is wrong."
        ),
    ),
    **dict.fromkeys(
        [("parameters_are_replaced_while_running", each) for each in ("graphs", "details", "reasons")],
        ("torch breaks where an attribute of a module is read after another was changed. nbcompile traces the change."),
    ),
    **dict.fromkeys(
        [("dataclass_with_inheritance_and_post_init", each) for each in ("graphs", "details")],
        ("torch puts == of two symbolic numbers into the graph. nbcompile evaluates it during tracing, with a guard."),
    ),
    (
        "object_is_made_and_returned",
        "details",
    ): "torch also returns an earlier value of an attribute of a new object.",
    (
        "slots_are_unset_and_deleted",
        "details",
    ): "The outputs of the graph are in a different order: torch stores attributes first.",
    **dict.fromkeys(
        [("hook_is_added_between_calls", each) for each in ("graphs", "details", "reasons")],
        (
            "nbcompile recompiles for a hook that is added later. torch ignores it "
            "(skip_nnmodule_hook_guards): a wrong result."
        ),
    ),
    (
        "attribute_appears_between_calls",
        "reasons",
    ): "Two guards of the entry fail. torch reports the one that is first in its guard tree.",
    ("set_argument_changes", "reasons"): "torch checks membership in a set before the length of the set.",
    (
        "forward_hook",
        "details",
    ): "torch adds the arguments of a call with stars to the inputs before the callee uses them.",
    **dict.fromkeys(
        [("exceptions_of_python_are_caught", each) for each in ("graphs", "details")],
        (
            "torch skips the branch of one caught exception. nbcompile traces all four "
            "additions, which eager mode executes."
        ),
    ),
    **dict.fromkeys(
        [("match_on_structure", each) for each in ("graphs", "details")],
        "torch keeps an input of a graph without operators. nbcompile removes it.",
    ),
    (
        "assert_on_python_values",
        "reasons",
    ): (
        "nbcompile reports a failed assertion as the exception that it raises. torch "
        "reports an assertion about symbolic shapes."
    ),
    (
        "exception_leaves_the_function",
        "reasons",
    ): ("torch cannot format the message of the exception, and reports that. nbcompile reports the exception."),
    (
        "yield_from_and_send",
        "details",
    ): "torch loses the value that `yield from` returns, and so the output of the graph.",
    ("collections_of_the_library", "details"): "The outputs of the graph are in a different order.",
    (
        "input_changes_its_shape_in_place",
        "graphs",
    ): (
        "torch leaves a change of an input's shape to Python (a delayed graph break). In "
        "nbcompile it is part of the graph."
    ),
    ("input_changes_its_shape_in_place", "details"): (
        "torch leaves a change of an input's shape to Python (a delayed graph break). In "
        "nbcompile it is part of the graph."
    ),
    ("input_changes_its_shape_in_place", "reasons"): (
        "torch leaves a change of an input's shape to Python (a delayed graph break). In "
        "nbcompile it is part of the graph."
    ),
    ("numbers_in_containers", "details"): "nbcompile adds the bound of a slice to the inputs before the sliced tensor.",
    ("views_as_inputs", "details"): "The sizes of the base of a view have symbols with different names.",
    (
        "break_in_autocast",
        "details",
    ): "nbcompile enters autocast again with its original cache setting. torch uses None.",
    (
        "list_changes_under_its_iterator",
        "details",
    ): "The list changes, so nbcompile keeps its iterator. torch stores the remaining items as a tuple.",
    (
        "list_changes_under_its_iterator",
        "reasons",
    ): "nbcompile keeps the iterator of the list, which breaks the graph of the resume function.",
    **{
        (name, "reasons"): (
            "nbcompile does not compile a coroutine, and gives that as the reason. torch traces into it, and fails."
        )
        for name in (
            "a_coroutine_is_compiled",
            "an_asynchronous_generator_is_compiled",
            "an_asynchronous_context_around",
            "asynchronous_for_over_an_object",
            "a_coroutine_raises",
            "a_method_is_a_coroutine",
        )
    },
    **_known(
        "a_coroutine_is_made_and_returned",
        "graphs details reasons",
        "torch runs a coroutine where it is created, and the result is wrong.",
    ),
    (
        "an_exception_group_is_caught_whole",
        "reasons",
    ): "A method of an exception group breaks the graph in both compilers. The messages differ.",
    # -- everyday programs ---------------------------------------------------------------
    **_known(
        "settings_are_replaced",
        "graphs details",
        (
            "torch puts `is not` of two symbolic numbers into the graph. nbcompile evaluates "
            "it during tracing, with a guard."
        ),
    ),
    ("settings_are_replaced", "reasons"): "torch guards the truth value of `is not` of two symbolic numbers.",
    **_known("flags_decide", "graphs details", "torch keeps a graph without operators."),
    **_known(
        "vectors_of_tensors",
        "graphs details reasons",
        "torch breaks at abs() of an object. nbcompile traces its __abs__.",
    ),
    (
        "abstract_class_is_not_made",
        "reasons",
    ): "torch breaks where an abstract class is called. nbcompile traces the TypeError.",
    ("objects_are_sorted", "reasons"): "torch breaks at >= of functools.total_ordering. nbcompile traces it.",
    **_known(
        "exit_stack_unwinds",
        "graphs details reasons",
        "torch breaks inside the implementation of ExitStack. nbcompile traces all of it.",
    ),
    **_known(
        "suppressing_and_closing", "graphs details reasons", "torch skips the frame where contextlib.suppress exits."
    ),
    **_known("counting_and_grouping", "graphs details reasons", "torch skips the frame at a method of Counter."),
    **_known(
        "statistics_of_numbers", "details reasons", "torch breaks at itertools.groupby with a key. nbcompile traces it."
    ),
    **_known(
        "numbers_in_texts", "graphs details reasons", "torch breaks at `%` of a text and a number. nbcompile traces it."
    ),
    ("texts_are_taken_apart", "reasons"): "torch breaks at str.maketrans. nbcompile evaluates it.",
    **_known(
        "templates_and_paragraphs",
        "graphs details reasons",
        "torch skips the frame where it cannot reconstruct a method.",
    ),
    **_known(
        "simple_namespaces",
        "graphs details reasons",
        "torch breaks where a SimpleNamespace is created, and skips the frame where an attribute of it is set.",
    ),
    ("simple_namespace", "reasons"): "torch breaks where an attribute of a SimpleNamespace is set.",
    **_known(
        "simple_namespace_arg", "graphs details reasons", "torch breaks where an attribute of a SimpleNamespace is set."
    ),
    **_known(
        "mapping_proxies",
        "graphs details",
        ("torch allows changes through a read-only view of a dict (a mapping proxy), and the result is wrong."),
    ),
    ("arguments_are_checked_by_signature", "reasons"): "torch breaks at the exception that the decorator raises.",
    ("dispatch_on_the_kind_of_a_value", "details"): "nbcompile orders the inputs of the graph by their first use.",
    ("dispatching_methods", "reasons"): "torch breaks at singledispatchmethod. nbcompile traces it.",
    **_known("abstract_class_is_not_made", "graphs details", "torch breaks at the TypeError. nbcompile traces it."),
    **_known("single_dispatch", "graphs details reasons", "torch breaks at singledispatch. nbcompile traces it."),
    (
        "slices_with_bounds_from_arguments",
        "details",
    ): "torch adds numbers to the inputs of the graph after the tensors.",
    (
        "adapter_passes_attributes_on",
        "details",
    ): "torch's source of a submodule is the dict of submodules, which gives the inputs other names.",
    (
        "copies_shallow_and_deep",
        "reasons",
    ): "copy.deepcopy breaks the graph in both compilers. torch has another break in the calling frame.",
    ("assignment_expressions", "reasons"): "torch breaks at an empty cell.",
    **_known(
        "members_that_can_be_called", "graphs details", "torch creates a symbol for the value of a member of an enum."
    ),
    # -- code bases ----------------------------------------------------------------------
    **_known(
        "patterns_of_axes", "graphs details reasons", "torch breaks at a comprehension over zip(strict=True) in a call."
    ),
    **_known(
        "pattern_that_does_not_fit",
        "graphs details reasons",
        ("torch skips the frame where the caller catches an exception of a called function, after zip(strict=True)."),
    ),
    **_known("versions_decide", "graphs details reasons", "torch breaks at >= of a data class. nbcompile traces it."),
    (
        "keyword_only_and_slots_data_class",
        "reasons",
    ): "repr() of a symbolic number breaks the graph in both compilers. The messages differ.",
    **_known(
        "decorator_class_with_state",
        "details reasons",
        ("torch's source of a class attribute is the dict of the defining class. nbcompile's source is type(child).k."),
    ),
    **_known(
        "metaclass_with_call", "graphs details reasons", "torch skips the frame where a metaclass has its own __call__."
    ),
    ("attributes_by_dict_proxy", "reasons"): "torch has another break at a method of a subclass of dict.",
    **{
        (
            name,
            "details",
        ): "torch's source of a submodule is the dict of submodules, which gives the inputs other names."
        for name in ("wrapper_that_forwards_everything", "state_of_a_recurrent_cell")
    },
    **{
        (name, "details"): "nbcompile orders the inputs of the graph by their first use."
        for name in ("experts_in_a_module_dict", "hooks_collect_features", "exponential_average_of_parameters")
    },
    (
        "hooks_collect_features",
        "reasons",
    ): "nbcompile guards the length of a dict that is changed. torch guards its truth value.",
    (
        "spectral_norm_in_training",
        "details",
    ): "After a write to out= nbcompile uses the tensor itself. torch uses the result of the operator.",
    **_known(
        "attention_with_a_cache",
        "graphs details reasons",
        "torch fails at a symbolic is_causal. nbcompile evaluates it during tracing.",
    ),
    **_known(
        "rotary_embedding_with_buffers",
        "graphs details reasons",
        "torch keeps 0 + n as an operator. nbcompile guards all keys of a dict that is changed.",
    ),
    **{
        (name, "reasons"): (
            "torch reports the break before tracing restarts. nbcompile reports the break where the last attempt ends."
        )
        for name in ("gradients_by_autograd_grad", "gradient_penalty")
    },
    (
        "several_breaks_in_contexts_of_several_depths",
        "details",
    ): "nbcompile enters autocast again with its original cache setting. torch uses None.",
    **{
        (name, "details"): "nbcompile orders the inputs of the graph by their first use."
        for name in ("functional_call_with_stacked_parameters", "gradients_of_a_loss_with_has_aux")
    },
    **_known(
        "sparse_matrix_times_dense",
        "graphs details reasons",
        "torch skips the frame at a sparse product. nbcompile compiles what follows it.",
    ),
    ("coroutine_like_generators", "details"): "torch loses what a generator changed after an exception.",
    (
        "paths_json_and_regular_expressions",
        "reasons",
    ): "json.loads breaks the graph in both compilers, at different steps of its implementation.",
    (
        "context_variables_and_thread_state",
        "reasons",
    ): "Methods of a context variable break the graph in both compilers. The messages differ.",
    ("pickled_and_copied_configurations", "reasons"): "torch breaks at copy.copy of a dict. nbcompile traces it.",
    # -- special cases of Python's own types -------------------------------------------------
    **_known(
        "named_tuple_with_its_own_new",
        "graphs details reasons",
        "torch skips the frame where a call has the wrong arguments. nbcompile traces the TypeError.",
    ),
    **_known(
        "objects_with_their_own_hash",
        "graphs details reasons",
        "torch breaks where a key is a tuple with an object that has its own __hash__.",
    ),
    **_known(
        "keys_with_their_own_hash_as_arguments",
        "details reasons",
        "torch treats an equal key as a different one, and the result is wrong. nbcompile traces __eq__.",
    ),
    (
        "data_classes_as_keys",
        "reasons",
    ): ("torch guards that a key is equal to the traced one. nbcompile guards what __hash__ and __eq__ read of it."),
    (
        "key_of_a_tuple_of_arguments",
        "reasons",
    ): "nbcompile guards all keys of a dict that is changed. torch guards the key that was looked up.",
    **_known(
        "value_of_a_generator_that_ends",
        "graphs details reasons",
        "torch skips the frame at `yield from` in a return statement.",
    ),
    **_known(
        "value_of_an_iterator_that_ends",
        "graphs details reasons",
        "torch does not trace an iterator of a user-defined class whose StopIteration has a value.",
    ),
    ("more_cells_than_locals", "reasons"): "torch breaks at an empty cell.",
    **_known(
        "str_format_field_by_field",
        "graphs details",
        "torch raises the exception of a wrong field from the compiler itself.",
    ),
    (
        "slices_of_constants_by_symbols",
        "reasons",
    ): "torch breaks where a symbolic number indexes bytes. nbcompile specialises the number.",
    (
        "bytes_and_what_equals_them",
        "reasons",
    ): "torch compares a bytearray during tracing, without a guard. nbcompile breaks the graph.",
    **_known(
        "property_that_raises_attribute_error",
        "graphs details reasons",
        "torch does not call __getattr__ where a property raises AttributeError.",
    ),
    **_known("typing_at_run_time", "details reasons", "torch breaks at NewType and TypedDict. nbcompile traces them."),
    ("locals_of_a_function", "reasons"): "torch breaks at dir() without arguments. nbcompile traces it.",
    (
        "function_under_a_cache_outlives_a_break",
        "reasons",
    ): "torch breaks where a cache is created. nbcompile traces that.",
    ("exception_holds_a_tensor", "details"): "nbcompile orders the inputs of the graph by their first use.",
    # -- calls, flow, text ---------------------------------------------------------------
    **_known(
        "default_of_an_inner_function_is_early", "graphs details", "torch fails at __defaults__ of a traced function."
    ),
    (
        "closure_of_an_argument_is_changed",
        "details",
    ): "nbcompile orders changed cells by their first change, torch by their last.",
    **_known("deleted_local_and_cell", "graphs details reasons", "torch does not trace `del` of a variable in a cell."),
    **_known(
        "unbound_local_is_caught",
        "graphs details reasons",
        "torch breaks at an unbound local variable. nbcompile traces its exception.",
    ),
    **_known(
        "exception_name_is_deleted",
        "graphs details reasons",
        "torch breaks at an unbound local variable. nbcompile traces its exception.",
    ),
    **_known(
        "cached_functions_of_every_kind",
        "graphs details reasons",
        (
            "nbcompile breaks at a cached function with side effects. torch traces it, and "
            "the effects happen again in each call."
        ),
    ),
    **_known(
        "cached_function_changes_an_older_object_again",
        "graphs details reasons",
        (
            "nbcompile breaks at a cached function with side effects. torch traces it, and "
            "the effects happen again in each call."
        ),
    ),
    **_known(
        "fromkeys_through_super_and_instances",
        "details reasons",
        ("torch breaks at `super().fromkeys`, and calls dict.__setitem__ for a subclass. nbcompile traces it."),
    ),
    (
        "partial_methods_and_partials_of_partials",
        "reasons",
    ): "partialmethod breaks the graph in both compilers, at different steps of its implementation.",
    (
        "builtins_as_values",
        "reasons",
    ): "torch breaks at a builtin with a wrong number of arguments. nbcompile traces the TypeError.",
    **_known(
        "exceptions_of_operations_are_caught",
        "graphs details reasons",
        "torch breaks at an unknown global variable. nbcompile traces the NameError.",
    ),
    **_known(
        "stop_iteration_carries_a_value",
        "graphs details reasons",
        ("torch skips the frame where a user-defined iterator stops with a value. nbcompile traces the value."),
    ),
    **_known(
        "generator_is_returned",
        "graphs details",
        ("torch runs a returned generator to its end in the graph, which is too early if what it reads changes later."),
    ),
    **_known(
        "break_in_a_generator",
        "graphs details",
        "torch runs the generator to its end, reaches the break again, and skips the frame.",
    ),
    **_known(
        "iterators_as_arguments",
        "graphs details reasons",
        (
            "nbcompile has no guard on an iterator that is only passed to next(), so one "
            "cache entry is enough for all classes."
        ),
    ),
    (
        "iterators_of_functions_as_arguments",
        "reasons",
    ): "torch's message has the name of the slot that CPython's type lacks.",
    **_known(
        "text_of_a_tensor_in_an_error",
        "graphs details reasons",
        "torch cannot format a symbolic number, and compiles only what precedes it.",
    ),
    **_known(
        "text_by_str_format_and_percent_of_a_tensor",
        "graphs details reasons",
        "torch breaks at `%` of a text and a tensor. nbcompile formats the text after the graph.",
    ),
    (
        "operator_error_is_caught",
        "reasons",
    ): "nbcompile leaves the operator's error and its handler to Python. torch does not support that.",
    **_known(
        "index_error_of_a_tensor_is_caught", "graphs details", "torch raises the exception from the compiler itself."
    ),
    **_known("dimension_error_is_caught", "graphs details", "torch raises the exception from the compiler itself."),
    (
        "text_of_a_number_in_a_tensor",
        "reasons",
    ): "torch breaks at repr() of a tensor. nbcompile formats the text after the graph.",
    **_known(
        "text_of_a_tensor_that_changes",
        "graphs details reasons",
        (
            "nbcompile leaves the text of a tensor that changes later to Python. torch "
            "compiles it, and the result is wrong."
        ),
    ),
    # -- tensors -------------------------------------------------------------------------
    **_known(
        "integer_operators_reflected",
        "graphs details reasons",
        "torch breaks at pow() of a tensor. nbcompile traces it as the operator.",
    ),
    **_known(
        "abs_round_and_their_like",
        "graphs details reasons",
        "torch breaks at pow() of a tensor. nbcompile traces it as the operator.",
    ),
    ("facts_by_method", "reasons"): "torch breaks at a method that does not return a tensor. nbcompile evaluates it.",
    **_known("out_arguments", "details reasons", "torch has a separate kind of graph break for a list in out=."),
    **_known(
        "argument_is_resized_or_set", "graphs details reasons", "torch also breaks at Tensor.set_. nbcompile traces it."
    ),
    **_known(
        "cells_are_shared_and_then_not",
        "graphs details reasons",
        "torch has no guard for two functions that share a cell.",
    ),
    ("module_attribute_is_the_global", "details"): "torch reads the old value of the global variable.",
    ("global_is_the_module_attribute", "details"): "torch reads the old value of the attribute of the module.",
    ("enum_member_attribute_changes", "details"): "nbcompile orders the inputs of the graph by their first use.",
    **_known(
        "numpy_function_of_a_tensor",
        "graphs details",
        "The NumPy function returns a tensor for a tensor. torch continues with an array.",
    ),
    **_known(
        "median_is_left_to_numpy",
        "graphs details reasons",
        "The result of torch._numpy.median has an extra dimension, so nbcompile leaves median to NumPy.",
    ),
    **_known(
        "operator_module_on_tensors",
        "graphs details reasons",
        "torch breaks at operator.truth of a list. nbcompile evaluates it.",
    ),
    (
        "getters_of_the_operator_module",
        "reasons",
    ): "torch reports three unsupported method calls, but compiles the same single graph.",
    **_known(
        "tensor_in_a_list", "graphs details", "torch traces `tensor in list` as an operator, and the result is wrong."
    ),
    (
        "number_functions_that_tensors_lack",
        "reasons",
    ): "nbcompile reports round() of a tensor as a builtin, and torch as a method.",
    **_known(
        "divmod_of_a_tensor",
        "graphs details reasons",
        "torch treats divmod of a tensor as an exception, and skips the frame.",
    ),
    (
        "index_out_of_range_on_a_tensor",
        "reasons",
    ): "torch raises the exception from the compiler itself, without a graph break.",
    # -- bodies --------------------------------------------------------------------------
    **_known(
        "function_that_reads_globals",
        "graphs details",
        "torch reads a symbolic float inside the body. nbcompile reads it once, outside.",
    ),
    **_known(
        "checkpoint_with_closure_and_keywords",
        "graphs details",
        ("If a body returns an input, nbcompile uses the input itself. torch uses the result of the operator."),
    ),
    **_known("checkpoint_sequential", "graphs details reasons", "torch does not trace checkpoint_sequential."),
    ("wrap_and_its_closures", "details"): "nbcompile orders the inputs of the graph by their first use.",
    **{
        (name, "details"): "torch also returns the size of an input from the region."
        for name in ("region_with_one_call", "regions_that_are_equal_and_others")
    },
    (
        "cond_with_closures",
        "details",
    ): "The shared inputs are sorted by name, and torch gives nodes the names of variables.",
    **{
        (name, "details"): "nbcompile orders the inputs of the graph by their first use. torch puts arguments first."
        for name in (
            "vmap_nested",
            "per_sample_gradients",
            "ensemble_of_modules",
            "grad_with_a_closure",
            "tree_map_with_several_trees",
        )
    },
    ("vmap_breaks", "reasons"): "torch reports the same graph break twice.",
    ("fork_rng", "reasons"): (
        "torch.random.fork_rng breaks the graph in both compilers, at different steps of its implementation."
    ),
    # -- optimisers ----------------------------------------------------------------------
    **{
        (name, aspect): (
            "In nbcompile the parameters and the state of an optimiser are inputs. In torch they are attributes."
        )
        for name in (
            "sgd_step",
            "sgd_with_momentum",
            "adam_step",
            "adamw_step",
            "adam_capturable_foreach_off",
            "rmsprop_step",
            "adagrad_step",
            "optimiser_step_compiled_directly",
            "training_step_without_backward",
            "learning_rate_scheduler",
        )
        for aspect in ("graphs", "details")
    },
    **{
        (name, "results"): (
            "As in torch, the compiled step uses the capturable formula, which rounds differently from eager mode."
        )
        for name in ("adam_step", "adamw_step", "adam_capturable_foreach_off")
    },
    **{
        (name, "reasons"): "Both compilers report the same break or guard. The messages differ."
        for name in (
            "sgd_with_momentum",
            "optimiser_step_compiled_directly",
            "zero_grad_inside",
            "training_step_without_backward",
            "a_scheduler_that_counts_its_steps",
            "float32_matmul_precision",
            "saved_tensors_hooks_inside",
            "anomaly_mode",
            "default_device_outside",
        )
    },
    ("get_default_device_inside", "reasons"): "torch breaks at a function of torch that does not return a tensor.",
    **_known("mode_counts_inside", "graphs details", "torch does not call torch function modes for attributes."),
    **{
        (name, "reasons"): (
            "torch has a separate guard for the class of a tensor subclass. In nbcompile the "
            "tensor's guard includes it."
        )
        for name in ("two_tensor_shape_and_type", "wrapper_or_plain")
    },
    (
        "scaled_argument",
        "reasons",
    ): "torch has no separate name for the data of a wrapper subclass that are not tensors.",
    **_known(
        "wrapper_dispatch_mode_around",
        "graphs details",
        "torch does not compile a function again that was once called in a mode.",
    ),
    ("not_traceable_wrapper", "reasons"): (
        "An operator of a wrapper subclass that is not traced breaks the graph in both compilers. The messages differ."
    ),
    **_known("wrapper_own_property", "graphs details", "torch treats the result of a property as an input."),
    **_known("counter_in_class", "graphs details reasons", "torch breaks where an attribute of a class is set."),
    (
        "modules_are_made_inside",
        "reasons",
    ): "torch skips the frame of a module's __init__ at super(). nbcompile resumes after it.",
    ("class_of_an_argument", "details"): "nbcompile orders the inputs of the graph by their first use.",
    ("lazy_linear", "details"): "nbcompile orders the inputs of the graph by their first use.",
    ("lazy_conv_and_norm", "details"): "nbcompile orders the inputs of the graph by their first use.",
    ("float32_matmul_precision", "details"): "torch breaks at a function of torch that does not return a tensor.",
    ("exponential_moving_average", "details"): "nbcompile orders the inputs of the graph by their first use.",
    ("old_weight_norm", "details"): "nbcompile orders the inputs of the graph by their first use.",
}

_AGREE_ON: dict[str, tuple[tuple[int, int], ...]] = {
    "dataclass_with_inheritance_and_post_init": ((3, 13),),
    "more_cells_than_locals": ((3, 12), (3, 13)),
    "assignment_expressions": ((3, 12), (3, 13)),
    "counting_and_grouping": ((3, 12), (3, 13)),
    "experts_in_a_module_dict": ((3, 12), (3, 13)),
    "modules_are_made_inside": ((3, 12), (3, 13)),
    "simple_namespace": ((3, 13),),
    "simple_namespace_arg": ((3, 13),),
}
"""Versions of Python in which a program of the table does not disagree."""

_INLINED_COMPREHENSIONS: dict[tuple[str, str], str] = {
    **_known("generator_throws", "graphs details", "torch fails with an internal IndexError from Python 3.12 on."),
    (
        "iterators_by_hand",
        "details",
    ): "nbcompile adds the result of next() to the inputs at once. torch waits until it is used.",
    (
        "break_in_two_comprehensions",
        "details",
    ): "torch stores the list before the frame resumes. In nbcompile the resume function stores it.",
    (
        "break_in_a_comprehension_in_a_loop",
        "reasons",
    ): "nbcompile passes the iterator of a range on as one of a tuple, and guards it as such.",
    **_known(
        "break_in_a_comprehension_of_shared_names",
        "graphs details",
        "torch skips the frame where a variable of a comprehension is a cell.",
    ),
    **_known(
        "break_in_a_comprehension_that_binds",
        "graphs details",
        ("nbcompile cannot resume after a comprehension that binds a variable of the function, and skips the frame."),
    ),
}
_SINCE_3_12 = {
    **_INLINED_COMPREHENSIONS,
    (
        "modules_are_made_inside",
        "details",
    ): "At the break the unfinished list is on the stack in nbcompile, and in a variable in torch.",
    ("coroutine_like_generators", "graphs"): "torch loses what a generator changed after an exception.",
    ("counting_and_grouping", "reasons"): "torch breaks at methods of Counter. nbcompile traces them.",
}
_ONLY_ON: dict[tuple[int, int], dict[tuple[str, str], str]] = {
    (3, 11): {("break_in_a_comprehension_that_binds", "reasons"): "torch reports the unbound cell first."},
    (3, 12): _SINCE_3_12,
    (3, 13): {
        **_SINCE_3_12,
        ("equality_of_dates", "reasons"): (
            "The creation of a date breaks the graph in both compilers. The messages differ from Python 3.13 on."
        ),
        (
            "threading_",
            "reasons",
        ): (
            "From Python 3.13 on the class of a lock is created differently. torch reports a "
            "method, and nbcompile a function."
        ),
    },
}

_WITH_TORCH: dict[tuple[int, int], dict[tuple[str, str], str]] = {
    (2, 15): {
        (
            "gradients_for_each_sample",
            "results",
        ): (
            "From torch 2.15 on eager mode rejects the program. nbcompile's error has the "
            "name of the operator, as before."
        ),
    }
}
"""Disagreements of programs whose results, or errors, change in a later version of torch."""

KNOWN_HERE: dict[tuple[str, str], str] = {
    **{key: reason for key, reason in KNOWN.items() if sys.version_info[:2] not in _AGREE_ON.get(key[0], ())},
    **_ONLY_ON[sys.version_info[:2]],
    **_WITH_TORCH.get(versions.torch_version(), {}),
}
